"""The push sender over aiohttp (spec: HOOK, SSRF, PAID-04, PAID-05)."""

from a2a_server.adapters.webhook.sender import WebhookSender
from a2a_server.adapters.webhook.signing import Signer, jwks, signing_keys

__all__ = ["Signer", "WebhookSender", "jwks", "signing_keys"]
