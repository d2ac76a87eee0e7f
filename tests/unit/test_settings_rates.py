"""The settings of rates: what is refused, and what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from a2a_server.ports.authenticator import Caller
from a2a_server.settings import SettingsError, load

SENDS = ["SendMessage", "SendStreamingMessage"]


def put(monkeypatch: pytest.MonkeyPatch, rates: dict[str, Any]) -> None:
    for name, value in rates.items():
        monkeypatch.setenv(f"A2A_RATES__{name.upper()}", value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ({"per_caller": "fast"}, "rates.per_caller = 'fast'"),
        ({"per_caller": "0/s"}, "must be a number of calls per s, min, h or d, such as 100/s"),
        ({"per_caller": "5/week"}, "rates.per_caller = '5/week'"),
        ({"burst": 5}, "burst needs per_caller"),
        ({"per_caller": "5/s", "burst": -1}, "rates.burst"),
        ({"operations": [{"operations": ["Send"], "rate": "1/s"}]}, "must be of CancelTask"),
        ({"operations": [{"operations": [], "rate": "1/s"}]}, "rates.operations.0.operations"),
        ({"operations": [{"operations": SENDS, "rate": "x"}]}, "rates.operations.0.rate = 'x'"),
        ({"operations": [{"operations": SENDS, "weight": 0}]}, "rates.operations.0.weight"),
        ({"operations": [{"operations": SENDS, "burst": 3}]}, "operations.burst needs a rate of its own"),
        ({"per_caller": "2/s", "operations": [{"operations": SENDS, "weight": 3}]}, "operations.weight 3 is more than"),
        ({"classes": [{"owners": ["ann"]}]}, "rates.classes"),
        ({"classes": "ann"}, "must be a JSON array such as"),
    ],
)
def test_what_cannot_work_stops_the_start(rates: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, rates)
    with pytest.raises(SettingsError) as caught:
        load()
    assert told in str(caught.value)


def test_rates_and_classes_mean_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [{"operations": SENDS, "rate": "2/min", "weight": 2}, {"operations": ["GetTask"], "weight": 0.5}]
    classes = [{"name": "gold", "scopes": ["gold"], "per_caller": "10/s"}, {"name": "free", "owners": ["bob"]}]
    put(monkeypatch, {"per_caller": "600/min", "operations": own, "classes": classes})
    rates = load().settings.rates
    quotas = rates.quotas("caller")
    assert quotas.others == ("caller", (10.0, 600), 1.0)
    assert quotas.operations["GetTask"] == ("caller", (10.0, 600), 0.5)
    assert (
        quotas.operations["SendMessage"]
        == quotas.operations["SendStreamingMessage"]
        == ("caller.SendMessage", (2 / 60, 2), 2.0)
    )
    gold, free = rates.caller_classes
    assert gold.quotas.others == ("gold", (10.0, 10), 1.0)
    assert free.quotas.others is None
    assert gold.has(Caller("ann", authenticated=True, scopes=frozenset({"gold"})))
    assert not gold.has(Caller("ann", authenticated=True))
    assert free.has(Caller("bob", authenticated=True))
    assert not free.has(Caller("bob"))
