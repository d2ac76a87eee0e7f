"""Receive webhooks: python examples/webhook_receiver.py --token TOKEN --jwks http://127.0.0.1:8080/.well-known/jwks.json.

Everything that a client has to look at before it believes a webhook, and why. It prints what is new and true.
"""

import argparse
import hashlib
import hmac
import json
import time
from collections import OrderedDict
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

REMEMBERED = 10_000
CLOCKS = 60  # seconds that ours and the server's may differ
PATIENCE = 10  # seconds between two looks at the server's keys


class Memory:
    """The latest of what has been seen; the oldest is forgotten."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._seen

    def add(self, name: str) -> None:
        self._seen[name] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)


class Keys:
    """The server's public keys, fetched again when one is missing: servers change their keys."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._set = KeySet([])
        self._looked = -PATIENCE

    async def read(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, self._set, algorithms=["ES256"])
        except (JoseError, ValueError):
            if time.monotonic() - self._looked < PATIENCE:  # whoever sends nonsense makes us ask nobody
                raise
        self._looked = int(time.monotonic())
        async with aiohttp.ClientSession() as session, session.get(self._url) as answer:
            self._set = KeySet.import_key_set(await answer.json())
        return jwt.decode(token, self._set, algorithms=["ES256"])


class Receiver:
    """What was told to the server as `url`, `token` and `authentication` of the push config, and where its keys are."""

    def __init__(self, url: str, *, token: str = "", credentials: str = "", jwks: str = "", issuer: str = "") -> None:
        self._url = url
        self._token = token
        self._credentials = credentials
        self._keys = Keys(jwks) if jwks else None
        self._issuer = issuer
        self._deliveries = Memory()
        self._signatures = Memory()

    async def challenge(self, request: web.Request) -> web.Response:
        """Say that we want webhooks: servers may ask before they send the first one."""
        return web.Response(text=request.query.get("validationToken", ""))

    async def receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        if fault := await self._fault(request, body):
            print("refused:", fault)
            return web.Response(status=401)
        delivery = request.headers["A2A-Delivery-Id"]
        if delivery not in self._deliveries:  # a webhook comes again when our answer was lost
            if trace := request.headers.get("traceparent"):  # that of the call which caused the event
                print("trace:", *trace.split("-")[1:2])
            await self.handle(request.headers["A2A-Task-Id"], json.loads(body))
            self._deliveries.add(delivery)  # not before it has been dealt with: if that fails, it shall come again
        return web.Response(status=204)

    async def handle(self, task_id: str, event: object) -> None:
        """Your own code. Of one config, events come in the order of the task's log."""
        print(task_id, json.dumps(event))

    async def _fault(self, request: web.Request, body: bytes) -> str:
        if "A2A-Delivery-Id" not in request.headers:
            return "no webhook"
        if not _same(request.headers.get("X-A2A-Notification-Token", ""), self._token):
            return "another token"
        if self._credentials and not _same(request.headers.get("Authorization", ""), self._credentials):
            return "other credentials"
        if not self._keys:
            return ""
        try:
            return self._claims_fault((await self._keys.read(_signature(request))).claims, request, body)
        except (JoseError, ValueError, KeyError, aiohttp.ClientError) as error:
            return f"no valid signature: {type(error).__name__}"

    def _claims_fault(self, claims: dict[str, object], request: web.Request, body: bytes) -> str:
        """A signature is worth no more than what was signed."""
        expected = {
            "aud": self._url,  # or it was meant for somebody else
            "bodySha256": hashlib.sha256(body).hexdigest(),
            "deliveryId": request.headers["A2A-Delivery-Id"],
        } | ({"iss": self._issuer} if self._issuer else {})
        for name, value in expected.items():
            if claims[name] != value:
                return f"another {name}"
        if not float(str(claims["iat"])) - CLOCKS <= time.time() <= float(str(claims["exp"])) + CLOCKS:
            return "out of date"
        if (jti := str(claims["jti"])) in self._signatures:
            return "a replay"  # every attempt is signed anew: this one was recorded, and is played again
        self._signatures.add(jti)
        return ""


def _signature(request: web.Request) -> str:
    """It stands in Authorization, unless we have given the server credentials of our own for that."""
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return request.headers.get("X-A2A-Signature", bearer)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def app_of(receiver: Receiver, path: str = "/hook") -> web.Application:
    app = web.Application(client_max_size=16 * 2**20)
    app.add_routes([web.get(path, receiver.challenge), web.post(path, receiver.receive)])
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the webhooks of an A2A server.")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--url", help="the `url` of the push config (default: http://127.0.0.1:PORT/hook)")
    parser.add_argument("--token", default="", help="the `token` of the push config")
    parser.add_argument("--authorization", default="", help='its scheme and credentials, such as "Bearer s3cr3t"')
    parser.add_argument("--jwks", default="", help="where the server publishes its keys, if it signs")
    parser.add_argument("--issuer", default="", help="the issuer that signatures must name")
    told = parser.parse_args()
    url = told.url or f"http://127.0.0.1:{told.port}/hook"
    receiver = Receiver(url, token=told.token, credentials=told.authorization, jwks=told.jwks, issuer=told.issuer)
    print(f"Make a push config with the url {url}")
    web.run_app(app_of(receiver, urlsplit(url).path or "/"), host="127.0.0.1", port=told.port)


if __name__ == "__main__":
    main()
