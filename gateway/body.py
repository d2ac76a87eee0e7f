"""Request bodies, read within bounds (spec: DOOR-04, LIMT-01)."""

from __future__ import annotations

import asyncio

from aiohttp import web

from a2a_server.errors import A2AError, Reason
from gateway.options import Options


async def read(request: web.BaseRequest, options: Options) -> bytes:
    """Return the whole body, or refuse it as soon as it is known to be too large, too slow or encoded."""
    headers = request.headers
    if (encoding := headers.get("Content-Encoding", "identity")) != "identity":
        raise A2AError(
            Reason.ENCODING_NOT_SUPPORTED, f'Send the body as it is; Content-Encoding is "{encoding[:100]}".'
        )
    if (request.content_length or 0) > options.max_body_bytes:
        raise _too_large(options)
    content = request.content
    if content.is_eof():  # it came with the headers, as most do
        body = content.read_nowait(-1)
        if len(body) > options.max_body_bytes:
            raise _too_large(options)
        return body
    try:
        async with asyncio.timeout(options.body_timeout):
            return await _slowly(request, options)
    except TimeoutError:
        text = f"The body did not arrive within {options.body_timeout:g} seconds."
        raise A2AError(Reason.REQUEST_TIMEOUT, text) from None


async def _slowly(request: web.BaseRequest, options: Options) -> bytes:
    body = bytearray()
    while chunk := await request.content.readany():
        body += chunk
        if len(body) > options.max_body_bytes:
            raise _too_large(options)
    return bytes(body)


def _too_large(options: Options) -> A2AError:
    return A2AError(Reason.BODY_TOO_LARGE, f"The body may have at most {options.max_body_bytes} bytes.")
