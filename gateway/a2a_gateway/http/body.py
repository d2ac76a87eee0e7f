"""Request bodies, read within bounds (spec: DOOR-04, LIMT-01)."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestPayloadError

from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import GatewayOptions

_CODINGS = ((hdrs.CONTENT_ENCODING, "identity"), (hdrs.TRANSFER_ENCODING, "chunked"))
"""What may be said about the body's encoding; aiohttp undoes chunks and would pass other codings on as they are."""


async def read(request: web.BaseRequest, options: GatewayOptions) -> bytes:
    """Return the whole body, or refuse it as soon as it is known to be too large, too slow or encoded."""
    headers = request.headers
    for name, known in _CODINGS:
        if name in headers and (coding := headers[name]).lower() != known:
            text = f'Send the body as it is; {name} is "{coding[:100]}".'
            raise A2AError(Reason.ENCODING_NOT_SUPPORTED, text)
    content = request.content
    if content.is_eof() and content.total_bytes <= options.max_body_bytes:  # it came with the headers, as most do
        return content.read_nowait()
    if (request.content_length or 0) > options.max_body_bytes or content.is_eof():
        raise _too_large(options)
    await _ask_for_it(request)
    try:
        async with asyncio.timeout(options.body_timeout):
            return await _slowly(request, options)
    except TimeoutError:
        text = f"The body did not arrive within {options.body_timeout:g} seconds."
        raise A2AError(Reason.REQUEST_TIMEOUT, text) from None
    except RequestPayloadError:
        raise A2AError(Reason.INVALID_REQUEST, "The body is not well-formed HTTP/1.1.") from None


async def _ask_for_it(request: web.BaseRequest) -> None:
    """Tell a client to go on that waits for a word before it sends a large body (RFC 9110, 10.1.1)."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


async def _slowly(request: web.BaseRequest, options: GatewayOptions) -> bytes:
    body = bytearray()
    while chunk := await request.content.readany():
        body += chunk
        if len(body) > options.max_body_bytes:
            raise _too_large(options)
    return bytes(body)


def _too_large(options: GatewayOptions) -> A2AError:
    return A2AError(Reason.BODY_TOO_LARGE, f"The body may have at most {options.max_body_bytes} bytes.")
