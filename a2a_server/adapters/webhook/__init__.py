"""The push sender over aiohttp (spec: HOOK, SSRF, PAID-04, PAID-05).

1. `sender` checks the config, writes the headers and makes the attempt.
2. `signing` adds a signature to the headers, if there are keys.
3. `connections` carries the request, and only to addresses that may be called.
4. `sender` turns the answer into an outcome.
"""

from a2a_server.adapters.webhook.sender import WebhookSender
from a2a_server.adapters.webhook.signing import Signer, jwks, signing_keys

__all__ = ["Signer", "WebhookSender", "jwks", "signing_keys"]
