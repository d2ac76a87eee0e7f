"""The gateway: an aiohttp application that serves A2A over HTTP, by the annotations of the protos."""

from a2a_gateway.app import create_app
from a2a_gateway.dispatcher import GatewayConfig

__all__ = ["GatewayConfig", "create_app"]
