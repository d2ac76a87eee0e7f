"""Channels of gRPC, which clients leave to their users: where they lead, and who calls."""

from __future__ import annotations

from typing import Any

import grpc


class _Unary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc,type-arg,unused-ignore]
    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(_signed(client_call_details, self._token), request)


class _Stream(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc,type-arg,unused-ignore]
    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(_signed(client_call_details, self._token), request)


def _signed(details: Any, token: str) -> Any:
    metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", f"Bearer {token}"))
    return details._replace(metadata=metadata)


def channel(address: str, token: str = "") -> grpc.aio.Channel:
    """An open channel to the address on a card, as it stands there."""
    interceptors = [_Unary(token), _Stream(token)] if token else []
    return grpc.aio.insecure_channel(address, interceptors=interceptors)
