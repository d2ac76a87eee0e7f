"""Which pages may read which answers (spec: DOOR-04, CONF-77)."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from a2a_gateway.http.cors import ANYBODY, Cors
from a2a_gateway.http.replies import Reply

OURS = "https://console.example"
NOBODY = Cors([])
SOME = Cors([OURS + "/", "http://LOCALHOST:3000"])
ALL = Cors(["*"])


def ask(origin: str | None = OURS, **fields: str) -> Any:
    pairs = {name.replace("_", "-"): value for name, value in fields.items()}
    return make_mocked_request("GET", "/", headers=CIMultiDict({**pairs, **({"Origin": origin} if origin else {})}))


def own(answer: Reply) -> list[tuple[str, str]]:
    """The headers that are not those of every answer."""
    usual = {"Server", "Cache-Control", "Content-Type"}
    return [(name, value) for name, value in answer.headers.items() if name not in usual]


def marked(cors: Cors, origin: str | None, *fields: tuple[str, str]) -> list[tuple[str, str]]:
    answer = Reply(b"", "", fields)
    cors.mark(ask(origin), answer)
    return own(answer)


EXPOSE = ("Access-Control-Expose-Headers", "*")
VARY = ("Vary", "Origin")


@pytest.mark.req("DOOR-04")
def test_it_is_off_by_default() -> None:
    assert marked(NOBODY, OURS) == []
    assert own(NOBODY.preflight(ask(), ["GET"])) == [("Allow", "GET")]


@pytest.mark.req("DOOR-04")
def test_listed_origins_may_read_and_caches_know_that_it_depends() -> None:
    assert marked(SOME, OURS) == [("Access-Control-Allow-Origin", OURS), EXPOSE, VARY]
    assert marked(SOME, "http://localhost:3000")[0] == ("Access-Control-Allow-Origin", "http://localhost:3000")


@pytest.mark.parametrize(
    "origin", [None, "null", "", "https://console.example.evil", "http://console.example", OURS + ":8443", OURS + "/x"]
)
def test_others_may_not(origin: str | None) -> None:
    assert marked(SOME, origin) == [VARY]
    assert not [name for name in SOME.preflight(ask(origin), ["GET"]).headers if name.startswith("Access-")]


@pytest.mark.parametrize("origin", [None, "null", OURS])
def test_a_star_is_everybody_without_credentials(origin: str | None) -> None:
    fields = marked(ALL, origin)
    assert fields == [("Access-Control-Allow-Origin", "*"), EXPOSE] == list(ANYBODY)
    for cors in (SOME, ALL):
        assert "Access-Control-Allow-Credentials" not in dict(cors.preflight(ask(), ["GET"]).headers)


def test_what_is_public_stays_public() -> None:
    for cors in (NOBODY, SOME, ALL):
        assert marked(cors, "https://elsewhere.example", *ANYBODY) == list(ANYBODY)


@pytest.mark.req("DOOR-04")
def test_a_preflight_says_what_may_be_sent() -> None:
    asking = ask(Access_Control_Request_Method="POST", Access_Control_Request_Headers="authorization,a2a-version")
    answer = SOME.preflight(asking, ["OPTIONS", "POST"])
    assert answer.status == 204
    assert own(answer) == [
        ("Allow", "OPTIONS, POST"),
        ("Access-Control-Allow-Origin", OURS),
        EXPOSE,
        VARY,
        ("Access-Control-Allow-Methods", "OPTIONS, POST"),
        ("Access-Control-Allow-Headers", "authorization,a2a-version"),
        ("Access-Control-Max-Age", "600"),
    ]


def test_every_page_may_ask_for_what_is_public_with_any_header() -> None:
    answer = NOBODY.preflight(ask("null", Access_Control_Request_Headers="a2a-version"), ["GET"], public=True)
    assert dict(answer.headers)["Access-Control-Allow-Origin"] == "*"
    assert dict(answer.headers)["Access-Control-Allow-Headers"] == "a2a-version"
