"""One card for readers of both versions, when none was asked for (spec: CONF-42, CONF-68)."""

from __future__ import annotations

from collections.abc import Mapping

Json = Mapping[str, object]


def superset(card: Json, legacy: Json) -> dict[str, object]:
    """Join the JSON of a card's 1.0 form and of its 0.3 form, both made of the same card.

    No member means different things in the two, so every object gets the members of both, skills and security schemes
    included; where both have a value, it is 1.0's that stands.
    """
    joined = {name: _join(value, legacy[name]) if name in legacy else value for name, value in card.items()}
    return joined | {name: value for name, value in legacy.items() if name not in card}


def _join(value: object, legacy: object) -> object:
    if isinstance(value, Mapping) and isinstance(legacy, Mapping):
        return superset(value, legacy)
    if isinstance(value, list) and isinstance(legacy, list) and len(value) == len(legacy):
        return [_join(one, other) for one, other in zip(value, legacy, strict=True)]
    return value
