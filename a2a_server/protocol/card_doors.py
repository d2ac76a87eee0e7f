"""The setting `card.doors`: which doors the card lists, and in which order (spec: DOOR-15, CONF-84)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import major_minor
from a2a_server.protocol.names import CURRENT, DRAFT, LEGACY
from a2a_server.protocol.options import NameList

ALL: Final = "all"
_BINDINGS: Final = {"grpc": "GRPC", "rest": "HTTP+JSON", "jsonrpc": "JSONRPC"}
_NAMES: Final = {binding: name for name, binding in _BINDINGS.items()}
_RELEASED: Final = CURRENT, LEGACY
_EACH: Final = [f"{version}/{binding}" for version in (*_RELEASED, DRAFT) for binding in _BINDINGS]
KNOWN: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        **{binding: [f"{version}/{binding}" for version in _RELEASED] for binding in _BINDINGS},
        **{name: [name] for name in _EACH if name != f"{DRAFT}/grpc"},
    }
)
"""What can be said, and the doors that it means: those of one binding, or a single one."""


def _spelt(names: tuple[str, ...]) -> tuple[str, ...]:
    """Read bindings also as cards spell them."""
    return tuple(name.lower().replace("http+json", "rest") for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOptions:
    """The agent card."""

    doors: Annotated[NameList, AfterValidator(_spelt)] = (ALL,)
    """The doors that the card lists, in this order: `grpc`, `rest`, `jsonrpc`, or of one version only `1.0/grpc`,
    `0.3/rest`, `draft/jsonrpc` and so on; `all` = all that are open. Doors that are not listed serve all the same."""

    def listed(self, doors: Sequence[pb.AgentInterface]) -> Sequence[pb.AgentInterface]:
        """Choose from the doors of a card. A card that has none of those named lists all: it must have some."""
        if self.doors == (ALL,):
            return doors
        places = {name: place for place, name in enumerate(chain.from_iterable(KNOWN[name] for name in self.doors))}
        chosen = [door for door in doors if _name_of(door) in places]
        return sorted(chosen, key=lambda door: places[_name_of(door)]) or doors

    def faults(self, opened: set[str]) -> Iterator[tuple[object, str]]:
        """Yield what names no door, none that is open, or the same one twice, and what is wrong with it."""
        if not self.doors:
            yield [], f"must name at least one door; {ALL} = all that are open"
        seen: set[str] = set()
        for name in self.doors if self.doors != (ALL,) else ():
            if fault := _fault(name, opened, seen):
                yield name, fault
            seen.update(KNOWN.get(name, ()))


def _name_of(door: pb.AgentInterface) -> str:
    """What the setting calls a door; no known name, if it is of another binding or version."""
    return f"{major_minor(door.protocol_version)}/{_NAMES.get(door.protocol_binding, '')}"


def _fault(name: str, opened: set[str], seen: set[str]) -> str:
    if name not in KNOWN:
        return f"must be {ALL}, by itself, or doors from {', '.join(KNOWN)}"
    if opened.isdisjoint(KNOWN[name]):
        return f"is not open; open are {', '.join(known for known in KNOWN if not opened.isdisjoint(KNOWN[known]))}"
    return "" if seen.isdisjoint(KNOWN[name]) else "names a door that is named before"
