"""google.rpc.Status → gRPC's trailers (spec: GRPC-04)."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from a2a_server.protocol.errors import LONGEST_VALUE, A2AError, ErrorCodes, status_of
from a2a_server.protocol.names import CHALLENGE, STATUS_DETAILS

_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Abort:
    """The arguments of `context.abort`."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]


def abort_of(error: A2AError, codes: ErrorCodes = "1.0.1") -> Abort:
    status = status_of(error, codes)
    trailers: list[tuple[str, str | bytes]] = [(STATUS_DETAILS, status.SerializeToString())]
    if challenge := error.metadata.get("challenge"):
        trailers.append((CHALLENGE, challenge[:LONGEST_VALUE]))
    return Abort(_CODES[status.code], status.message, tuple(trailers))
