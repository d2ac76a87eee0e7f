"""Requests whose method aiohttp does not know: the line that its error quotes is all there is of them (ERRS-02)."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Final

from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadStatusLine
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

_QUOTED: Final = re.compile(r"\n\n  (b'[^\n]*'|b\"[^\n]*\")\n")
_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}) (/[!-~]*) HTTP/1\.([01])")


def strange_request(error: BaseException | None) -> RawRequestMessage | None:
    """The request that ended in an error because of nothing but its method; its headers are unknown."""
    if not isinstance(error, BadStatusLine) or (quoted := _QUOTED.search(error.message)) is None:
        return None
    if (line := _LINE.fullmatch(literal_eval(quoted[1]))) is None:
        return None
    method, target, minor = (part.decode() for part in line.groups())
    return RawRequestMessage(
        method,
        target,
        HttpVersion11 if minor == "1" else HttpVersion10,
        CIMultiDictProxy(CIMultiDict()),
        (),
        should_close=True,  # where its body ends nobody can tell
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(target, encoded=True),
    )
