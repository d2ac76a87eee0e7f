"""What known callers, limits and logs add to a call."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from joserfc import jwt
from joserfc.jwk import RSAKey

from a2a_proto import a2a_pb2 as pb
from tests.bench.doors import REST, ask
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import Lab
from tests.bench.processes import Server
from tests.bench.rows import TRUST, Row, Target

_SPREAD = 64
_SLICES = 20
_TOKEN = "t0k-0123456789abcdefghijklmnopqrstuvwxyz"
_AUDIENCE = "https://agent.example"

_NO_AUDIT: Final = '[audit]\nto = "none"\n'
_RATES: Final = '[rates]\nper_caller = "1000000/s"\n'
_ACCESS: Final = "[log]\naccess = true\n"
_TARGETS: Final = {"a JWT": 1.15, "rates and audit": 1.05}


@dataclass(frozen=True, slots=True)
class _Side:
    """A server's settings, and the credentials of its callers."""

    settings: str
    authorization: str = ""

    def plan(self, server: Server) -> HttpPlan:
        send = replace(REST.send("echo"), authorization=self.authorization)
        sent = [ask(REST, server, send, pb.SendMessageResponse) for _ in range(_SPREAD)]
        reads = [replace(REST.get(found.task.id), authorization=self.authorization) for found in sent]
        return HttpPlan("GetTask", [read.raw() for read in reads], DONE)


def trust(lab: Lab) -> Iterator[Row]:
    """GetTask over REST with a token, a JWT, rates, audit and access log, each against an anonymous one without."""
    rounds = [_round(lab) for _ in range(lab.effort.rounds)]
    for name in rounds[0]:
        if name:
            yield Row(
                section=TRUST,
                bench=f"GetTask over REST with {name} ÷ anonymous",
                metric="server CPU µs/call",
                ours=[found[name] for found in rounds],
                other=[found[""] for found in rounds],
                target=Target("≤", _TARGETS[name]) if name in _TARGETS else None,
            )


def _round(lab: Lab) -> Mapping[str, float]:
    """What a call costs each server, in µs.

    The differences are small. So the servers of each round are new ones, because even equal ones differ by a per cent,
    and of the many slices of a round the cheapest counts: other work on the machine only makes calls dearer.
    """
    short = replace(lab.effort, rounds=_SLICES, seconds=lab.effort.seconds / _SLICES)
    with ExitStack() as stack:
        sides = _sides(lab, stack)
        servers = {
            name: stack.enter_context(lab.ours("memory", settings=side.settings)) for name, side in sides.items()
        }
        loads = lab.compare({name: (server, sides[name].plan(server)) for name, server in servers.items()}, short)
    return {name: min(1e6 * load.server_cpu / load.calls for load in found) for name, found in loads.items()}


def _sides(lab: Lab, stack: ExitStack) -> Mapping[str, _Side]:
    issuer, token = _issuer(lab, stack)
    bearer = f"Bearer {token}"
    return {
        "": _Side(_NO_AUDIT),
        "a token": _Side(_NO_AUDIT + _tokens(), f"Bearer {_TOKEN}"),
        "a JWT": _Side(_NO_AUDIT + issuer, bearer),
        "rates": _Side(_NO_AUDIT + _RATES),
        "audit": _Side(_audit(lab)),
        "rates and audit": _Side(_audit(lab) + _RATES),
        "the access log": _Side(_NO_AUDIT + _ACCESS),
        "a JWT, rates, audit and access log": _Side(_audit(lab) + _RATES + _ACCESS + issuer, bearer),
    }


def _tokens() -> str:
    digest = hashlib.sha256(_TOKEN.encode()).hexdigest()
    return f'[[auth.tokens]]\nowner = "ann"\nhash = "sha256:{digest}"\n'


def _audit(lab: Lab) -> str:
    return f'[audit]\nto = "file:{lab.place("audit.log")}"\n'


def _issuer(lab: Lab, stack: ExitStack) -> tuple[str, str]:
    """The settings of an issuer whose keys are published, and a token of 700 bytes that it has signed."""
    folder, key = lab.place("issuer"), RSAKey.generate_key(2048, {"kid": "bench"})
    folder.mkdir()
    (folder / "jwks.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}), "utf-8")
    url = f"http://127.0.0.1:{stack.enter_context(lab.files(folder)).http}"
    named = f'issuer = "{url}"\njwks_url = "{url}/jwks.json"\naudiences = ["{_AUDIENCE}"]\n'
    now = int(time.time())
    claims = {
        "iss": url,
        "aud": _AUDIENCE,
        "sub": "8f3c2a1e-5b7d-4c0f-9d1a-2e4b6c8d0f12",
        "azp": "bench",
        "iat": now,
        "exp": now + 3600,
        "jti": "f0e1d2c3b4a5968778695a4b3c2d1e0f",
        "scope": "a2a:*",
    }
    token = jwt.encode({"alg": "RS256", "kid": "bench", "typ": "at+jwt"}, claims, key)
    return f"[[auth.issuers]]\n{named}allow_loopback = true\nhttps_only = false\n", token
