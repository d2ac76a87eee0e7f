"""The bytes of files, in the spellings that are seen."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.protocol.v0_3.parts import decode_file, encode_file


@pytest.mark.parametrize(
    ("content", "read"),
    [
        pytest.param(b"aGVsbG8=", b"hello", id="text-of-the-python-and-go-sdks"),
        pytest.param(b"hello", b"hello", id="bytes-of-the-javascript-sdk"),
        pytest.param(b"\x89PNG\r\n", b"\x89PNG\r\n", id="no-text-at-all"),
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"aGVsbG8", b"aGVsbG8", id="padding-is-missing"),
        pytest.param(b"aGVsbG9=", b"aGVsbG9=", id="bits-left-over"),
        pytest.param(b"aGVs\nbG8=", b"aGVs\nbG8=", id="a-line-break"),
        pytest.param(b"_-8=", b"_-8=", id="the-alphabet-for-urls"),
        pytest.param(b"====", b"====", id="only-padding"),
        pytest.param(b"aGVsbG8=aGVs", b"aGVsbG8=aGVs", id="more-after-the-end"),
    ],
)
def test_read(content: bytes, read: bytes) -> None:
    assert decode_file(content) == read


@given(content=st.binary())
def test_what_we_write_is_read(content: bytes) -> None:
    assert decode_file(encode_file(content)) == content


@given(content=st.text("AZaz09+/=", max_size=12).map(str.encode) | st.binary(max_size=8))
def test_only_what_base64_would_write_is_decoded(content: bytes) -> None:
    decoded = decode_file(content)
    assert decoded == content or base64.b64encode(decoded) == content
    if any(base64.b64encode(candidate) == content for candidate in _candidates(content)):
        assert base64.b64encode(decoded) == content


def _candidates(content: bytes) -> list[bytes]:
    try:
        return [base64.b64decode(content)]
    except ValueError:
        return []
