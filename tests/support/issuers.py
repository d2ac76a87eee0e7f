"""An OpenID Connect issuer on a loopback port, which rotates its keys, stalls, lies and dies when a test says so."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from aiohttp import BasicAuth, web
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

SigningKey = RSAKey | ECKey | OKPKey
AUDIENCE = "https://agent.example"

ALGORITHMS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",
}


def made(algorithm: str = "ES256", kid: str = "") -> SigningKey:
    """A new key that an algorithm can sign with."""
    kind = ALGORITHMS[algorithm]
    parameters: Any = {"kid": kid} if kid else None
    if kind == "RSA":
        return RSAKey.generate_key(2048, parameters)
    return OKPKey.generate_key("Ed25519", parameters) if kind == "Ed25519" else ECKey.generate_key(kind, parameters)


def part(value: object) -> str:
    """One part of a JWT, as its sender writes it."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: Mapping[str, Any], claims: object, key: SigningKey) -> str:
    """A JWT with any header and any claims, signed as its `alg` says."""
    text = f"{part(header)}.{part(claims)}"
    return f"{text}.{part(jws.JWSRegistry.algorithms[header['alg']].sign(text.encode(), key))}"


@dataclass
class Issuer:
    """What tests tell it to do, and what it was asked."""

    url: str = ""
    keys: list[SigningKey] = field(default_factory=list)
    algorithm: str = "ES256"
    mood: str = "well"
    """well, stalling, garbage, huge, redirecting, failing, empty, or lying: it names another issuer."""
    jwks_at: str = ""
    """Where its metadata says that its keys are; empty = where they are."""
    asked: Counter[str] = field(default_factory=Counter)
    opaque: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What introspection tells about tokens; it knows no others."""
    busy: int = 0
    busiest: int = 0
    """How many introspections there were at once."""
    runner: web.AppRunner | None = None
    port: socket.socket | None = None
    tls: ssl.SSLContext | None = None

    def rotate(self, *, keep: bool = True) -> SigningKey:
        """Sign with a new key from now on; the old ones stay published if `keep`."""
        self.keys = [made(self.algorithm, f"key-{time.monotonic_ns()}"), *(self.keys if keep else ())]
        return self.keys[0]

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a good token; those that are changed to None are left out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300, "scope": "a2a:*"}
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, **changed: Any) -> str:
        key = self.keys[0]
        return signed({"alg": self.algorithm, "kid": key.kid, "typ": "at+jwt"}, self.claims(**changed), key)

    async def live(self) -> None:
        assert self.runner is not None
        assert self.port is not None
        await web.SockSite(self.runner, self.port, ssl_context=self.tls).start()

    async def die(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    # -- what it serves

    async def metadata(self, request: web.Request) -> web.StreamResponse:
        urls = {"token_endpoint": f"{self.url}/token", "jwks_uri": self.jwks_at or f"{self.url}/jwks"}
        named = "https://issuer.example" if self.mood == "lying" else self.url
        return await self._told(request, {"issuer": named, **urls})

    async def jwks(self, request: web.Request) -> web.StreamResponse:
        shown = [key.as_dict(private=False) for key in self.keys]
        return await self._told(request, {"keys": [] if self.mood == "empty" else shown})

    async def _told(self, request: web.Request, document: Mapping[str, Any]) -> web.StreamResponse:
        self.asked[request.path] += 1
        match self.mood:
            case "stalling":
                await asyncio.sleep(60)
            case "garbage":
                return web.Response(body=b"\xff<html>")
            case "huge":
                return web.json_response({**document, "more": "x" * 2_000_000})
            case "redirecting":
                raise web.HTTPFound(f"{self.url}/elsewhere{request.path}")
            case "failing":
                raise web.HTTPServiceUnavailable
        return web.json_response(document)

    async def grant(self, request: web.Request) -> web.Response:
        """Client credentials: the client's name becomes the subject (RFC 6749, 4.4)."""
        form = await request.post()
        assert form["grant_type"] == "client_credentials"
        header = request.headers.get("Authorization")
        client = BasicAuth.decode(header).login if header else str(form["client_id"])
        token = self.token(sub=client, scope=str(form.get("scope", "a2a:*")))
        return web.json_response({"access_token": token, "token_type": "Bearer", "expires_in": 300})

    async def introspect(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        who = BasicAuth.decode(request.headers["Authorization"]) if "Authorization" in request.headers else None
        given = unquote_plus(who.password) if who else str(form["client_secret"])
        assert given == "s3cret:?"
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await asyncio.sleep(0.01)
            known = self.opaque.get(str(form["token"]))
            return await self._told(request, {"active": True, **known} if known is not None else {"active": False})
        finally:
            self.busy -= 1


@asynccontextmanager
async def issuing(
    algorithm: str = "ES256", path: str = "", *, alive: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Issuer]:
    """Run an issuer for the duration of the block; one that is not alive has a port, and nobody listens there yet."""
    issuer = Issuer(algorithm=algorithm, tls=tls)
    issuer.rotate()
    app = web.Application()
    app.router.add_get(f"{path}/.well-known/openid-configuration", issuer.metadata)
    app.router.add_get(f"/.well-known/oauth-authorization-server{path}", issuer.metadata)
    app.router.add_get(f"{path}/jwks", issuer.jwks)
    app.router.add_post(f"{path}/token", issuer.grant)
    app.router.add_post(f"{path}/introspect", issuer.introspect)
    app.router.add_get("/elsewhere/{rest:.*}", issuer.jwks)
    issuer.runner = web.AppRunner(app, shutdown_timeout=0.1)
    await issuer.runner.setup()
    with socket.create_server(("127.0.0.1", 0)) if alive else socket.socket() as port:
        if not alive:
            port.bind(("127.0.0.1", 0))
        issuer.port = port
        issuer.url = f"http{'s' if tls else ''}://127.0.0.1:{port.getsockname()[1]}{path}"
        try:
            if alive:
                await issuer.live()
            yield issuer
        finally:
            await issuer.die()
