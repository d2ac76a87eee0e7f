"""Official clients log in with an identity provider's tokens, and find out by themselves where to get them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth.credentials import CredentialService
from a2a.client.auth.interceptor import AuthInterceptor
from a2a.utils import errors as sdk

from a2a_proto import a2a_pb2 as pb
from tests.interop.environments import javascript
from tests.support.callers import House, house, trusting
from tests.support.issuers import Issuer, issuing

BINDINGS = ("GRPC", "HTTP+JSON", "JSONRPC")
NEAR_AND_FAR = pytest.mark.parametrize("far", [False, True], ids=["near", "far"])


class ClientCredentials(CredentialService):
    """Gets a token where the card says, for the scheme that the SDK asks for (RFC 6749, 4.4)."""

    def __init__(self, http: httpx.AsyncClient, card: Any, name: str, **more: str) -> None:
        self._http = http
        self._card = card
        self._name = name
        self._more = more
        self._tokens: dict[str, str] = {}

    async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str | None:
        if security_scheme_name not in self._tokens:
            scheme = self._card.security_schemes[security_scheme_name]
            if url := scheme.open_id_connect_security_scheme.open_id_connect_url:
                at = (await self._http.get(url)).json()["token_endpoint"]
            else:
                at = scheme.oauth2_security_scheme.flows.client_credentials.token_url
            form = {"grant_type": "client_credentials", **self._more}
            granted = await self._http.post(at, data=form, auth=(self._name, "secret"))
            self._tokens[security_scheme_name] = granted.json()["access_token"]
        return self._tokens[security_scheme_name]


@asynccontextmanager
async def logged_in(here: House, binding: str, name: str, *, far: bool = False) -> AsyncIterator[Any]:
    """The SDK's client, made from the card, with a token of its own."""
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, here.gateway if far else here.base).get_agent_card()
        config = ClientConfig(
            supported_protocol_bindings=[binding],
            grpc_channel_factory=grpc.aio.insecure_channel,
            httpx_client=http,
            streaming=False,
        )
        interceptor = AuthInterceptor(ClientCredentials(http, card, name))
        async with ClientFactory(config).create(card, interceptors=[interceptor]) as client:
            yield client


def hello() -> Any:
    return pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hello")]))


def chosen(idp: Issuer, kind: str) -> dict[str, Any]:
    flow = {"flow": "clientCredentials", "token_url": f"{idp.url}/token"} if kind == "oauth2" else {}
    return trusting(idp, card_scopes=["a2a:*"], **flow)


@pytest.mark.req("GATE-01", "GATE-02", "AUTN-01", "AUTN-05")
@pytest.mark.parametrize("kind", ["oidc", "oauth2"])
@pytest.mark.parametrize("binding", BINDINGS)
@NEAR_AND_FAR
async def test_the_sdk_for_python_logs_in(kind: str, binding: str, *, far: bool) -> None:
    async with (
        issuing("RS256") as idp,
        house(gateway=True, auth={"issuers": [chosen(idp, kind)]}) as here,
        logged_in(here, binding, "ann", far=far) as ann,
        logged_in(here, binding, "bob", far=far) as bob,
    ):
        (answer,) = [answer async for answer in ann.send_message(hello())]
        task = answer.task
        assert task.status.state == pb.TASK_STATE_COMPLETED
        assert (await ann.get_task(pb.GetTaskRequest(id=task.id))).id == task.id
        with pytest.raises(sdk.TaskNotFoundError):
            await bob.get_task(pb.GetTaskRequest(id=task.id))
        idp.rotate(keep=False)
        async with logged_in(here, binding, "ann", far=far) as again:
            assert (await again.get_task(pb.GetTaskRequest(id=task.id))).id == task.id


@pytest.mark.req("GATE-06", "GATE-01", "AUTN-02")
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
@NEAR_AND_FAR
async def test_the_sdk_for_javascript_finds_out_where_to_log_in(transport: str, *, far: bool) -> None:
    command = javascript("login.mjs")
    async with issuing() as idp, house(gateway=True, auth={"issuers": [chosen(idp, "oidc")]}) as here:
        process = await asyncio.create_subprocess_exec(
            *command,
            here.gateway if far else here.base,
            transport,
            "ann",
            "secret",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()
        told = json.loads(out)
        assert (told["state"], told["logins"]) == ("completed", 1)
