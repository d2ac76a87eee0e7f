"""URLs and media ranges."""

import pytest

from a2a_server.domain import media_types, validation


@pytest.mark.parametrize(
    ("url", "sound"),
    [
        ("https://hook.example", True),
        ("http://127.0.0.1:8080/a?b=c#d", True),
        ("http://[::1]/", True),
        ("HTTPS://hook.example/", True),
        ("https://münchen.example/", True),
        ("", False),
        ("hook.example/x", False),
        ("//hook.example/x", False),
        ("ftp://hook.example/", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://:443/", False),
        ("https://h:0/", False),
        ("https://h:port/", False),
        ("https://h:70000/", False),
        ("https://[::1/", False),
        ("https://h/a b", False),
        ("https://h/\n", False),
        ("https://h/" + "x" * 2048, False),
    ],
)
def test_urls(url: str, sound: bool) -> None:  # noqa: FBT001
    assert (validation.url_fault(url) == "") is sound


@pytest.mark.parametrize(
    ("value", "sound"),
    [
        ("text/plain", True),
        ("application/vnd.api+json; v=1", True),
        ("*/*", True),
        ("", False),
        ("text", False),
        ("text/", False),
        ("/plain", False),
        ("text/plain/x", False),
        ("text /plain", False),
    ],
)
def test_media_ranges(value: str, sound: bool) -> None:  # noqa: FBT001
    assert (media_types.media_range_fault(value) == "") is sound


@pytest.mark.parametrize(
    ("media_type", "mode", "covered"),
    [
        ("text/plain", "text/plain", True),
        ("text/plain", "*", True),
        ("text/plain", "*/*", True),
        ("text/plain", "text/*", True),
        ("text/plain;charset=utf-8", "Text/Plain", True),
        ("text/plain", "text", False),
        ("textile/plain", "text/*", False),
        ("text", "text/*", False),
    ],
)
def test_matches(media_type: str, mode: str, covered: bool) -> None:  # noqa: FBT001
    assert media_types.matches(media_type, mode) is covered
