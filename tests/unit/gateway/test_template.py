"""The grammar of google.api.http's paths."""

import pytest

from a2a_gateway.routing.template import TemplateError, Variable, Wild, decode, decode_between_slashes, parse

ONE, REST = Wild.ONE, Wild.REST

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
