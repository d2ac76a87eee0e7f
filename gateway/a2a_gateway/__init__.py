"""The gateway: A2A over HTTP, derived from the annotations of the protos, as an aiohttp application."""

from a2a_gateway.app import create_app
from a2a_gateway.dispatcher import GatewayConfig

__all__ = ["GatewayConfig", "create_app"]
