"""The grammar of google.api.http's paths."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table, UnknownPath, WrongVerb
from a2a_gateway.routing.template import (
    Segment,
    TemplateError,
    Variable,
    Wildcard,
    decode,
    decode_between_slashes,
    parse,
)
from a2a_proto import a2a_pb2
from a2a_server.protocol.errors import A2AError

ONE, REST = Wildcard.ONE, Wildcard.REST

GOOD = [
    # Each row: a template, its segments, its variables, its suffix.
    ("/", (), (), ""),  # grpc-gateway takes it, the grammar of http.proto does not
    ("/tasks", ("tasks",), (), ""),
    ("/tasks/*", ("tasks", ONE), (), ""),
    ("/**", (REST,), (), ""),
    ("/tasks/{id}", ("tasks", ONE), (Variable("id", 1, 2, single=True),), ""),  # short for {id=*}
    ("/tasks/{id=*}:cancel", ("tasks", ONE), (Variable("id", 1, 2, single=True),), "cancel"),
    ("/message:send", ("message",), (), "send"),
    ("/a:b/c", ("a:b", "c"), (), ""),  # only a colon of the last segment starts a suffix
    ("/a/b:c:d", ("a", "b:c"), (), "d"),  # and there only the last one
    ("/v1/{a.b_c.d}", ("v1", ONE), (Variable("a.b_c.d", 1, 2, single=True),), ""),
    ("/{x=a}/b", ("a", "b"), (Variable("x", 0, 1, single=True),), ""),  # a variable may hold nothing but literals
    ("/{n=s/*/b/*}:v", ("s", ONE, "b", ONE), (Variable("n", 0, 4, single=False),), "v"),
    ("/f/{p=**}", ("f", REST), (Variable("p", 1, None, single=False),), ""),
    ("/{p=f/**}:stamp", ("f", REST), (Variable("p", 0, None, single=False),), "stamp"),
    ("/{t}/tasks/{id}", (ONE, "tasks", ONE), (Variable("t", 0, 1, single=True), Variable("id", 2, 3, single=True)), ""),
    ("/.well-known/agent-card.json", (".well-known", "agent-card.json"), (), ""),
    ("/a%20b/%C3%BC", ("a b", "ü"), (), ""),  # literals are compared decoded
    ("/{x=a:b}", ("a:b",), (Variable("x", 0, 1, single=True),), ""),  # a colon inside of braces is no suffix
]


@pytest.mark.parametrize(("text", "segments", "variables", "suffix"), GOOD, ids=[row[0] for row in GOOD])
def test_good_templates(text: str, segments: object, variables: object, suffix: str) -> None:
    template = parse(text)
    assert (template.text, template.segments, template.variables, template.suffix) == (
        text,
        segments,
        variables,
        suffix,
    )


BAD = [
    ("", 'must start with "/"'),
    ("tasks", 'must start with "/"'),
    ("{id}", 'must start with "/"'),
    ("/tasks/", "a segment is empty"),
    ("//tasks", "a segment is empty"),
    ("/:cancel", "a segment is empty"),
    ("/tasks:", "a segment is empty"),
    ("/tasks:*", "must be a word"),
    ("/**/tasks", '"**" must be the last segment'),
    ("/{p=**}/tasks", '"**" must be the last segment'),
    ("/{a=**}/{b=**}", '"**" must be the last segment'),
    ("/a*", '"a*" is neither a wildcard nor a literal'),
    ("/***", "neither a wildcard nor a literal"),
    ("/a b", "neither a wildcard nor a literal"),
    ("/a?b", "neither a wildcard nor a literal"),
    ("/%zz", "neither a wildcard nor a literal"),
    ("/%ff", "is not UTF-8"),
    ("/{}", '"" is not the name of a field'),
    ("/{=*}", '"" is not the name of a field'),
    ("/{1a}", '"1a" is not the name of a field'),
    ("/{a.}", '"a." is not the name of a field'),
    ("/{a-b}", '"a-b" is not the name of a field'),
    ("/{ü}", "is not the name of a field"),  # identifiers of protos are ASCII
    ("/{a=}", "a segment is empty"),
    ("/{a=/b}", "a segment is empty"),
    ("/{a={b}}", "no other variable inside"),
    ("/{a", "a variable must be a whole segment"),
    ("/a}", "a variable must be a whole segment"),
    ("/x{a}", "a variable must be a whole segment"),
    ("/{a}x", "a variable must be a whole segment"),
    ("/{a}{b}", "a variable must be a whole segment"),
    ("/{a}/{a}", "a field is captured twice"),
]


@pytest.mark.parametrize(("text", "reason"), BAD, ids=[row[0] for row in BAD])
def test_bad_templates(text: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text)
    assert str(caught.value).startswith(f'path template "{text}": ')
    assert reason in str(caught.value)


DECODED = [
    ("plain", "plain", "plain"),
    ("a+b", "a+b", "a+b"),  # a plus means a space in queries only
    ("%3a%3A", "::", "::"),
    ("a%2Fb%2fc", "a/b/c", "a%2Fb%2fc"),  # the one difference: a border stays told from an encoded slash
    ("%252F", "%2F", "%2F"),  # decoded once
    ("%00%7f", "\0\x7f", "\0\x7f"),
    ("%C3%BCü", "üü", "üü"),  # not encoded though it should be: unmistakable
    ("..", "..", ".."),
]


@pytest.mark.parametrize(("text", "whole", "between"), DECODED)
def test_decoding(text: str, whole: str, between: str) -> None:
    assert decode(text) == whole
    assert decode_between_slashes(text) == between


@pytest.mark.parametrize("text", ["%", "a%2", "%zz", "%%2F", "%2%2F", "%C3", "%C3%2F%BC", "%ED%A0%80", "\udc80"])
def test_encodings_that_are_none(text: str) -> None:
    for reading in (decode, decode_between_slashes):
        with pytest.raises(ValueError, match=r'has a "%"|is not UTF-8'):
            reading(text)


METHOD = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods_by_name["GetTask"]
UNRESERVED = "-_.~"

WORDS = st.text("abcz-._~!$&'()+,;=@", min_size=1, max_size=4)
VALUES = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["a/b", "%", "%2F", "%252f", "..", ":cancel", "a:b", "ü", "\0", "+", "?#"]
)
BETWEEN = VALUES.filter(lambda text: "/" not in text)
"""What one of several segments may hold: in them a slash is a border."""


@dataclass
class Piece:
    template: str
    said: str
    """What the path says here, encoded."""
    captured: str | None = None


def encoded(text: str, hide: bool = False) -> str:  # noqa: FBT001, FBT002 - drawn
    """As http.proto demands, or with every byte encoded, which is the same."""
    return "".join(f"%{byte:02x}" for byte in text.encode()) if hide else quote(text, safe=UNRESERVED)


LITERALS = st.builds(lambda word, hide: Piece(word, encoded(word, hide)), WORDS, st.booleans())
WILDCARDS = st.builds(lambda text, hide: Piece("*", encoded(text, hide)), VALUES, st.booleans())
SINGLES = st.builds(
    lambda form, text, hide: Piece(form, encoded(text, hide), text),
    st.sampled_from(["{%s}", "{%s=*}"]),
    VALUES,
    st.booleans(),
)
SEVERAL = st.builds(
    lambda first, word, second: Piece(
        f"{{%s=*/{word}/*}}", f"{encoded(first)}/{encoded(word)}/{encoded(second)}", f"{first}/{word}/{second}"
    ),
    BETWEEN,
    WORDS,
    BETWEEN,
)
RESTS = st.builds(
    lambda word, rest: Piece(
        f"{{%s={word}/**}}", "/".join([encoded(word), *map(encoded, rest)]), "/".join([word, *rest])
    ),
    WORDS,
    st.lists(st.just("") | BETWEEN, max_size=3),
)


@st.composite
def filled(draw: st.DrawFn) -> tuple[str, str, dict[str, str]]:
    """A template, a path, and what it captures."""
    pieces = draw(st.lists(LITERALS | WILDCARDS | SINGLES | SEVERAL, min_size=1, max_size=4))
    pieces += draw(st.lists(RESTS, max_size=1))
    suffix = draw(st.sampled_from(["", "", "cancel"]))
    template = "".join(f"/{piece.template.replace('%s', f'f{at}')}" for at, piece in enumerate(pieces))
    path = "".join(f"/{piece.said}" for piece in pieces)
    captures = {f"f{at}": piece.captured for at, piece in enumerate(pieces) if piece.captured is not None}
    if not suffix:
        return template, path, captures
    colon = draw(st.sampled_from([":", "%3A", "%3a"]))
    return f"{template}:{suffix}", f"{path}{colon}{suffix}", captures


def route(verb: str, template: str) -> Route:
    return Route(verb, parse(template), "", "", METHOD)


@given(filled())
def test_captures_come_back_whatever_they_hold(drawn: tuple[str, str, dict[str, str]]) -> None:
    template, path, captures = drawn
    match = Table([route("GET", template)]).match("GET", path)
    assert dict(match.captures) == captures


SEGMENTS = st.sampled_from(["a", "b", "*", "*"])
TEMPLATES = st.builds(
    lambda segments, rest, suffix: f"/{'/'.join(segments + rest)}{suffix}" if segments or rest else "/",
    st.lists(SEGMENTS, max_size=3),
    st.sampled_from([[], [], ["**"]]),
    st.sampled_from(["", "", ":x", ":y"]),
)
VERBS = st.sampled_from(["GET", "GET", "POST", "HEAD", "*"])
PATHS = st.lists(st.sampled_from(["a", "b", "c", "", "a:x", "b:y", ":x", "c:z", "a%3Ax", "a:x:y"]), max_size=4).map(
    lambda segments: "/" + "/".join(segments)
)


@st.composite
def tables(draw: st.DrawFn) -> list[Route]:
    drawn = draw(st.lists(st.builds(route, VERBS, TEMPLATES), min_size=1, max_size=12))
    distinct = {(it.verb, it.template.segments, it.template.suffix): it for it in drawn}
    return draw(st.permutations(list(distinct.values())))


def fits(template: tuple[Segment, ...], segments: list[str]) -> bool:
    if not template:
        return not segments
    head, *rest = template
    if head is Wildcard.REST:
        return True
    if not segments or not (segments[0] if head is Wildcard.ONE else segments[0] == head):
        return False
    return fits(tuple(rest), segments[1:])


def readings(routes: list[Route], segments: list[str]) -> Iterator[Route]:
    """Every route that has the path, one by one."""
    last = segments[-1] if segments else ""
    head, _, tail = last.rpartition(":")
    for it in routes:
        template = it.template
        if template.suffix:
            if tail == template.suffix and fits(template.segments, [*segments[:-1], head]):
                yield it
            continue
        # A suffix that another route of the same segments knows is no part of an id.
        taken = {other.template.suffix for other in routes if other.template.segments == template.segments} - {""}
        if tail not in taken and fits(template.segments, segments):
            yield it


def rank(it: Route) -> list[int]:
    return [0 if isinstance(segment, str) else 1 if segment is Wildcard.ONE else 2 for segment in it.template.segments]


def naive(routes: list[Route], verb: str, path: str) -> Route | set[str]:
    """The route, or the verbs that the path has otherwise; none of them when it is unknown."""
    segments = path.replace("%3A", ":").split("/")[1:] if path != "/" else []
    found = sorted(readings(routes, segments), key=rank)
    preferred = [verb, *(["GET"] if verb == "HEAD" else []), "*"]
    fitting = [it for it in found if it.verb in preferred]
    if not fitting:
        return {it.verb for it in found}
    best = [it for it in fitting if rank(it) == rank(fitting[0])]
    return min(best, key=lambda it: preferred.index(it.verb))


@given(tables(), st.sampled_from(["GET", "POST", "HEAD", "PUT"]), PATHS)
def test_the_trie_finds_what_trying_every_route_finds(routes: list[Route], verb: str, path: str) -> None:
    expected = naive(routes, verb, path)
    try:
        found: Route | set[str] = Table(routes).match(verb, path).route
    except UnknownPath:
        found = set()
    except WrongVerb as error:
        found = set(error.allow) - {"OPTIONS"}
        if "GET" in found and isinstance(expected, set):
            expected |= {"HEAD"}
    assert found is expected if isinstance(expected, Route) else found == expected


@given(
    st.text("/{}=*:.%2Fab", max_size=12) | st.text(max_size=8), st.text("/:%2FAab", max_size=12) | st.text(max_size=8)
)
def test_nothing_breaks_the_table(template: str, path: str) -> None:
    fault, table = attempt(lambda: Table([route("GET", template)]), TemplateError)
    assert fault is None or f'path template "{template}": ' in fault
    if table is not None:
        refusal, match = attempt(lambda: table.match("GET", path), A2AError, UnknownPath)
        assert refusal or (match is not None and match.route is table.routes[0])


R = TypeVar("R")


def attempt(what: Callable[[], R], *refusals: type[Exception]) -> tuple[str | None, R | None]:
    try:
        return None, what()
    except refusals as error:
        return str(error), None
