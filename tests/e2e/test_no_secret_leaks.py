"""A whole run with every kind of secret, of which nothing may be found afterwards (spec: GATE-12, SECR-02, SECR-03).

A server and a gateway in processes of their own, over TLS, at log level debug, with audit and access log; good and bad
calls through every door and version, with a proxy and a policy beside them. Then all that was printed, logged, answered
and stored, also in the write-ahead log while they ran, is searched for each one: as it is, and in base64, hexadecimal
digits and percent-encoding. A new kind of secret is one more entry of `WORDS` or of `secrets_of`, and one more way to
present it is one more of `presented`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest
import trustme
from aiohttp import ClientSession, TCPConnector, web
from google.protobuf import text_format
from joserfc.jwk import ECKey

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from tests.e2e.processes import command, environment
from tests.support.guard import answer
from tests.support.house import PasswordHash
from tests.support.issuers import Issuer, issuing
from tests.support.receivers import Received, receiver
from tests.support.world import say

SEALING_KEY = base64.b64encode(os.urandom(32)).decode()
KEY = "an API key at its place"
"""Stands for the header, query parameter or cookie of API keys."""
PAGES = (
    "/.well-known/agent-card.json",
    "/.well-known/jwks.json",
    "/.well-known/oauth-protected-resource",
    "/extendedAgentCard",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/nowhere",
)
WORDS = {
    "token": "t0k3n-0f-ann-7f3a",
    "wrong token": "gu3ss3d-t0k3n-91bc",
    "API key": "k3y-0f-bob-55aa",
    "wrong API key": "gu3ss3d-k3y-02de",
    "password": "p4ssw0rd-0f-carol-66",
    "wrong password": "p4ssw0rd-of-nobody",
    "proxy secret": "pr0xy-s3cr3t-77dd",
    "wrong proxy secret": "gu3ss3d-pr0xy-88ee",
    "policy token": "p0l1cy-t0k3n-99ff",
    "opaque token": "0paqu3-t0k3n-c4fe",
    "wrong opaque token": "wr0ng-0paqu3-beef",
    "client secret": "s3cret:?",
    "webhook token": "h00k-t0k3n-1234",
    "webhook credentials": "h00k-cr3d3nt14ls-5678",
    "sensitive answer": "s3ns1t1v3-answ3r-9abc",
    "credential in band": "1n-b4nd-cr3d3nt14l-7a7a",
    "sealing key": SEALING_KEY,
    "shared key of servers": "sh4r3d-k3y-0f-4ll-s3rv3rs-ab12-cd34",
}


def hashed(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def body_of(pem: str) -> str:
    """The lines of a key that hold its private part, as one text."""
    return "".join(line for line in pem.splitlines() if "-----" not in line)[20:60]


def spellings(secret: str) -> Iterator[bytes]:
    """A secret as it is and as others would write it; in base64 also within something longer."""
    raw = secret.encode()
    yield from (raw, raw[::-1], raw.hex().encode(), raw.hex().upper().encode())
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)
        inner = text[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        yield from (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))


@dataclass
class Run:
    """Two processes, the secrets that they were told, and all that came out of them."""

    folder: Path
    secrets: dict[str, str]
    ca: trustme.CA
    grpc_at: str = ""
    bases: tuple[str, ...] = ()
    place: str = "header"
    """Where API keys are sent."""
    client: tuple[bytes, bytes] = (b"", b"")
    """The key and the certificates of a client."""
    kept: dict[str, bytes] = field(default_factory=dict)
    """The files of the store while a server had it open."""
    answers: list[bytes] = field(default_factory=list)
    """What clients were told, with headers and trailers."""

    def note(self, *told: object) -> None:
        self.answers.append("\n".join(map(str, told)).encode())

    def leaks(self) -> list[tuple[str, str]]:
        files = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.name.startswith("out")}
        for path in (self.folder / "data").iterdir():
            files[path.name] = path.read_bytes()
        files.update(self.kept)
        assert {"out.server", "out.gateway", "a2a.db", "audit.log", "running a2a.db-wal"} <= files.keys()
        files["answers"] = b"\n".join(self.answers)
        return [
            (name, place)
            for name, secret in self.secrets.items()
            for place, content in files.items()
            if any(spelling in content for spelling in spellings(secret))
        ]


@asynccontextmanager
async def process(run: Run, name: str, started: str, *arguments: str, **variables: str) -> AsyncIterator[str]:
    """Run a command for the duration of the block; yields its log's line that says where it listens."""
    line = [sys.executable, "-m", "a2a_server", *arguments]
    path = run.folder / f"out.{name}"
    with path.open("w") as out:
        env = {**environment(), **variables}
        child = subprocess.Popen(line, cwd=run.folder / "data", env=env, stdout=out, stderr=out)  # noqa: ASYNC220
        try:
            async with asyncio.timeout(30):
                while not (found := re.search(f".*{started}.*", path.read_text())):
                    assert child.poll() is None, path.read_text()
                    await asyncio.sleep(0.05)
            yield found[0]
            child.send_signal(signal.SIGTERM)
            await asyncio.to_thread(child.wait, 20)
        finally:
            child.kill()


def address(line: str, door: str) -> str:
    found = re.search(rf"{door}\"?[=:] ?\"?([\d.]+:\d+)", line)
    assert found, line
    return found[1]


AGENT = """
from tests.support.guard import Guard

agent = Guard().agent


@agent.skill(id="bank", description="Asks for a credential in band.", tags=["test"])
async def bank(turn):
    if turn.number == 1:
        await turn.require_auth("The password?", in_band=True)
        return None
    raise ValueError(turn.text)
"""
PLACES = {"header": {}, "query": {"A2A_AUTH__API_KEY_QUERY": "key"}, "cookie": {"A2A_AUTH__API_KEY_COOKIE": "key"}}


def made(folder: Path, *arguments: str) -> str:
    """What a command makes and shows once."""
    done = command(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() not in done.stderr
    return done.stdout.strip()


def secrets_of(idp: Issuer, folder: Path, keys: Path, signing: Mapping[str, str]) -> dict[str, str]:
    """Those of this run, beside `WORDS`."""
    return {
        **WORDS,
        **{name: body_of(pem) for name, pem in signing.items()},
        "TLS key": body_of((keys / "key.pem").read_text()),
        "key of a client certificate": body_of((keys / "client.key").read_text()),
        "JWT": idp.token().rpartition(".")[2],
        "forged JWT": "f0rg3d" + idp.token(sub="mallory").rpartition(".")[2][6:],
        "token of a file": made(folder, "token", "new", "--owner", "dan", "--append", "tokens.toml"),
    }


@asynccontextmanager
async def deciding() -> AsyncIterator[str]:
    """A policy that allows everything but lists, which it fails over."""

    async def decide(request: web.Request) -> web.Response:
        assert request.headers["authorization"] == f"Bearer {WORDS['policy token']}"
        asked = (await request.json())["input"]
        return web.json_response({"result": True}, status=500 if asked["operation"] == "ListTasks" else 200)

    application = web.Application()
    application.router.add_post("/allow", decide)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/allow"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(folder: Path, idp: Issuer, policy: str, log_format: str, place: str) -> AsyncIterator[Run]:
    (folder / "data").mkdir()
    ca, keys = trustme.CA(), folder / "keys"
    keys.mkdir()
    cert = ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(str(keys / "ca.pem"))
    cert.cert_chain_pems[0].write_to_path(str(keys / "cert.pem"))
    cert.private_key_pem.write_to_path(str(keys / "key.pem"))
    client = ca.issue_cert("client.internal")
    client.cert_chain_pems[0].write_to_path(str(keys / "client.pem"))
    client.private_key_pem.write_to_path(str(keys / "client.key"))
    names = ("key that signs webhooks", "key that signs cards")
    signing = {name: ECKey.generate_key("P-256").as_pem(private=True).decode() for name in names}
    (folder / "agent.py").write_text(AGENT)
    secrets = secrets_of(idp, folder / "data", keys, signing)
    issuer = {"issuer": idp.url, "audiences": ["https://agents.example"], "allow_loopback": True, "name": "corp"}
    asking = {"url": f"{idp.url}/introspect", "client_id": "a2ad", "client_secret": WORDS["client secret"]}
    told = {
        "A2A_LOG__LEVEL": "debug",
        "A2A_LOG__FORMAT": log_format,
        "A2A_LOG__ACCESS": "true",
        "A2A_AUDIT__TO": "file:audit.log",
        "A2A_TLS__CERT": str(keys / "cert.pem"),
        "A2A_TLS__KEY": str(keys / "key.pem"),
        **PLACES[place],
    }
    upstream = {"A2A_UPSTREAM__CERT": str(keys / "client.pem"), "A2A_UPSTREAM__KEY": str(keys / "client.key")}
    server = {
        **told,
        "A2A_TLS__CLIENT_CA": str(keys / "ca.pem"),
        "A2A_TLS__CLIENT_CERTIFICATES": "optional",
        "A2A_AUTH__CERTIFICATES": json.dumps([{"name": "dns:other.internal", "owner": "other"}]),
        "A2A_AUTH__STORED_KEYS": "true",
        "A2A_RATES__WRONG_CREDENTIALS": "0",
        "A2A_AUTH__TOKENS_FILE": "tokens.toml",
        "A2A_AUTH__PASSWORDS": json.dumps([{"owner": "carol", "hash": hashed_password(WORDS["password"])}]),
        "A2A_AUTH__PROXY__OWNER_HEADER": "x-forwarded-user",
        "A2A_AUTH__PROXY__SECRET_HEADER": "x-proxy-secret",
        "A2A_AUTH__PROXY__SECRET_HASH": hashed(WORDS["proxy secret"]),
        "A2A_POLICY__URL": policy,
        "A2A_POLICY__TOKEN": WORDS["policy token"],
        "A2A_CARD__SIGNING_KEYS": json.dumps([signing["key that signs cards"]]),
        "A2A_AUTH__TOKENS": json.dumps([{"owner": "ann", "hash": hashed(WORDS["token"])}]),
        "A2A_AUTH__API_KEYS": json.dumps([{"owner": "bob", "hash": hashed(WORDS["API key"])}]),
        "A2A_AUTH__ISSUERS": json.dumps([issuer]),
        "A2A_AUTH__INTROSPECTION": json.dumps(
            [{**asking, "audiences": ["https://agents.example"], "name": "opaque", "allow_loopback": True}]
        ),
        "A2A_PUSH__ALLOW_LOOPBACK": "true",
        "A2A_PUSH__RETRY_FIRST": "0.01",
        "A2A_PUSH__SIGNING_KEYS": json.dumps([signing["key that signs webhooks"]]),
        "A2A_PUSH__SECRET_KEYS": SEALING_KEY,
        "A2A_PEERS__SHARED_KEY": WORDS["shared key of servers"],
    }
    run = Run(
        folder, secrets, ca, place=place, client=(client.private_key_pem.bytes(), (keys / "client.pem").read_bytes())
    )
    serve = ("serve", str(folder / "agent.py"), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    async with process(run, "server", "server.started", *serve, **server) as line:
        run.grpc_at = address(line, "grpc")
        relay = ("gateway", "--upstream", run.grpc_at, "--tls", "--ca", str(keys / "ca.pem"), "--http", "127.0.0.1:0")
        secrets["key of the store"] = made(folder / "data", "keys", "create", "--owner", "fay")
        async with process(run, "gateway", "gateway.started", *relay, **told, **upstream) as other:
            run.bases = (f"https://{address(line, 'http')}", f"https://{address(other, 'http')}")
            yield run
        run.kept = {f"running {path.name}": path.read_bytes() for path in (folder / "data").glob("a2a.db*")}
        for arguments in COMMANDS:
            done = await asyncio.to_thread(command, *arguments, cwd=folder / "data", **server)
            run.note(done.stdout, done.stderr)


COMMANDS = [
    ("config",),
    ("push", "list", "--json"),
    ("push", "retry", "--all"),
    ("keys", "list", "--json"),
    ("db", "delete", "--owner", "ann", "--dry-run"),
]


def hashed_password(secret: str) -> str:
    return str(PasswordHash.of(secret, os.urandom(16), power=12))  # quickly


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def presented(run: Run, idp: Issuer) -> Iterator[dict[str, str]]:
    """Every credential in every place, good and bad."""
    good = idp.token()
    run.secrets["JWT"] = good.rpartition(".")[2]
    idp.opaque[WORDS["opaque token"]] = {"sub": "eve", "aud": "https://agents.example", "exp": idp.claims()["exp"]}
    forged = f"{good.rpartition('.')[0]}.{run.secrets['forged JWT']}"
    for token in ("token", "wrong token", "opaque token", "wrong opaque token"):
        yield {"authorization": f"Bearer {WORDS[token]}"}
        yield {"authorization": f"bearer  {WORDS[token]} {WORDS[token]}"}
        yield {"authorization": WORDS[token]}
        yield {"x-api-key": WORDS[token]}
    for key in (WORDS["API key"], WORDS["wrong API key"], run.secrets["key of the store"]):
        yield {"x-api-key": key}
        yield {KEY: key}
        yield {KEY: key, "authorization": f"Bearer {WORDS['wrong token']}"}
    for proof in (WORDS["proxy secret"], WORDS["wrong proxy secret"]):
        yield {"x-forwarded-user": "gil", "x-proxy-secret": proof}
        yield {"x-forwarded-user": "gil" * 200, "x-proxy-secret": proof}
    yield {"authorization": f"Bearer {run.secrets['token of a file']}"}
    yield {"authorization": f"Bearer {good}"}
    yield {"authorization": f"Bearer {forged}"}
    for password in (WORDS["password"], WORDS["wrong password"]):
        yield basic("carol", password)


async def over_grpc(run: Run, headers: Mapping[str, str], *, channel: grpc.aio.Channel) -> None:
    name = "x-api-key" if run.place == "header" else "key"
    metadata = [(name if each == KEY else each, value) for each, value in headers.items()]
    calls: list[Any] = [
        a2a_pb2_grpc.A2AServiceStub(channel).GetTask(pb.GetTaskRequest(id="nobodys"), metadata=metadata),
        a2a_v0_3_pb2_grpc.A2AServiceStub(channel).GetTask(v03.GetTaskRequest(name="tasks/x"), metadata=metadata),
    ]
    for call in calls:
        try:
            run.note(await call)
        except grpc.aio.AioRpcError as error:
            run.note(error.details(), *(f"{name}: {value!r}" for name, value in error.trailing_metadata() or ()))


async def over_http(
    run: Run, session: ClientSession, verb: str, url: str, headers: Mapping[str, str], **more: Any
) -> Any:
    plain = {name: value for name, value in headers.items() if name != KEY}
    if key := headers.get(KEY):
        if run.place == "query":
            more["params"] = {"key": key}
        else:
            plain.update({"cookie": f"key={key}"} if run.place == "cookie" else {"x-api-key": key})
    async with session.request(verb, url, headers=plain, **more) as told:
        text = await told.text()
        run.note(told.status, told.headers, text)
        with suppress(ValueError):
            return json.loads(text)


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def everywhere(run: Run, session: ClientSession, headers: Mapping[str, str]) -> None:
    for base in run.bases:
        await over_http(run, session, "GET", f"{base}/tasks/nobodys", headers)
        await over_http(run, session, "GET", f"{base}/v1/tasks/nobodys", headers)
        await over_http(run, session, "POST", f"{base}/", headers, json=rpc("GetTask", {"id": "nobodys"}))
        await over_http(run, session, "POST", f"{base}/", headers, json=rpc("tasks/get", {"id": "nobodys"}))


async def malformed(run: Run, session: ClientSession, headers: Mapping[str, str], task_id: str) -> None:
    """Answers to a sensitive question that cannot be read, or that reach no task."""
    secret = WORDS["sensitive answer"]
    said = {"messageId": "m", "role": "ROLE_USER", "taskId": task_id}
    wrong: list[Any] = [
        {"message": {**said, "parts": [{"text": [secret]}]}},
        {"message": {**said, "parts": [{"text": secret, "url": secret}]}},
        {"message": {**said, "parts": secret}},
        {"message": {**said, "parts": [{"text": secret}], "metadata": secret}},
        {"message": {**said, "parts": [{"text": secret}], "taskId": "nobodys"}},
        {"message": {**said, "parts": [{"text": secret}], "contextId": "another"}},
    ]
    for base in run.bases:
        await over_http(run, session, "POST", f"{base}/message:send", headers, data=f'{{"message": {secret}')
        for body in wrong:
            await over_http(run, session, "POST", f"{base}/message:send", headers, json=body)
            await over_http(run, session, "POST", f"{base}/", headers, json=rpc("SendMessage", body))


async def configs(run: Run, session: ClientSession, headers: Mapping[str, str], task_id: str, url: str) -> None:
    """Push configs with secrets: right ones, wrong ones, read back."""
    token, told = WORDS["webhook token"], WORDS["webhook credentials"]
    good = {"url": url, "token": token, "authentication": {"scheme": "Bearer", "credentials": told}}
    basic = {"url": url, "token": token, "authentication": {"scheme": "Basic", "credentials": told}}
    wrong = [
        {**good, "url": "http://10.0.0.1/"},
        {**good, "unknown": token},
        {**good, "token": [token]},
        {**good, "token": token + "\n"},
        {**good, "authentication": told},
        {**good, "authentication": {"scheme": "", "credentials": told}},
        {**good, "authentication": {"scheme": "Bearer", "credentials": {"password": told}}},
    ]
    for base in run.bases:
        path = f"{base}/tasks/{task_id}/pushNotificationConfigs"
        for config in (good, basic, *wrong):
            await over_http(run, session, "POST", path, headers, json=config)
            params = {"taskId": task_id, **config}
            await over_http(
                run, session, "POST", f"{base}/", headers, json=rpc("CreateTaskPushNotificationConfig", params)
            )
            older = {"taskId": task_id, "pushNotificationConfig": {**config, "authentication": {"schemes": ["Bearer"]}}}
            await over_http(
                run, session, "POST", f"{base}/", headers, json=rpc("tasks/pushNotificationConfig/set", older)
            )
        await over_http(run, session, "GET", path, headers)


async def asks_and_crashes(run: Run, headers: Mapping[str, str], *, channel: grpc.aio.Channel) -> str:
    """A sensitive answer that is kept to itself, and one that is in the exception of the agent that got it."""
    stub, metadata = a2a_pb2_grpc.A2AServiceStub(channel), list(headers.items())
    for skill in ("secret", "clumsy"):
        task = (await stub.SendMessage(say("hello", skill=skill), metadata=metadata)).task
        done = await stub.SendMessage(answer(task, WORDS["sensitive answer"]), metadata=metadata)
        run.note(text_format.MessageToString(done), done.SerializeToString())
        items = [item async for item in stub.SendStreamingMessage(say("hello", skill=skill), metadata=metadata)]
        waits = next(item.task for item in items if item.HasField("task"))
        waits = await stub.GetTask(pb.GetTaskRequest(id=waits.id), metadata=metadata)
        async for item in stub.SendStreamingMessage(answer(waits, WORDS["sensitive answer"]), metadata=metadata):
            run.note(text_format.MessageToString(item))
    task = (await stub.SendMessage(say("hello", skill="bank"), metadata=metadata)).task
    done = await stub.SendMessage(say(WORDS["credential in band"], task_id=task.id), metadata=metadata)
    assert done.task.status.state == pb.TASK_STATE_FAILED
    run.note(text_format.MessageToString(done), done.SerializeToString())
    listed = await stub.GetTask(pb.GetTaskRequest(id=task.id), metadata=metadata)
    run.note(text_format.MessageToString(listed))
    return str((await stub.SendMessage(say("hello", skill="plain"), metadata=metadata)).task.id)


@pytest.mark.req("GATE-12", "SECR-02", "SECR-03")
@pytest.mark.timeout(300)  # five hundred calls and ten processes
@pytest.mark.parametrize(("log_format", "place"), [("console", "header"), ("json", "query"), ("json", "cookie")])
async def test_nothing_that_a_run_leaves_behind_has_a_secret(tmp_path: Path, log_format: str, place: str) -> None:
    tries = 0

    async def moody(_: Received) -> web.StreamResponse:
        nonlocal tries
        tries += 1
        return web.Response(status=500 if tries % 2 else 204, text="no")

    async with (
        issuing() as idp,
        receiver(moody) as hook,
        deciding() as policy,
        running(tmp_path, idp, policy, log_format, place) as run,
    ):
        context = ssl.create_default_context()
        run.ca.configure_trust(context)
        roots = grpc.ssl_channel_credentials(run.ca.cert_pem.bytes(), *run.client)
        known = {"authorization": f"Bearer {WORDS['token']}"}
        async with (
            ClientSession(connector=TCPConnector(ssl=context)) as session,
            grpc.aio.secure_channel(run.grpc_at, roots) as channel,
        ):
            for headers in presented(run, idp):
                await over_grpc(run, headers, channel=channel)
                await everywhere(run, session, headers)
            task_id = await asks_and_crashes(run, known, channel=channel)
            await configs(run, session, known, task_id, hook.url)
            for base in run.bases:
                await over_http(run, session, "POST", f"{base}/message:send", known, data=b'{"message": ')
                await over_http(run, session, "GET", f"{base}/tasks", known)
                for page in PAGES:
                    await over_http(run, session, "GET", base + page, {})
                    await over_http(run, session, "GET", base + page, known)
                    await over_http(run, session, "GET", base + page, {KEY: WORDS["API key"]})
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            asking = (await stub.SendMessage(say("hello", skill="secret"), metadata=list(known.items()))).task
            for headers in (known, {KEY: WORDS["API key"]}):
                await malformed(run, session, headers, asking.id)
            answered = say("now", task_id=task_id)
            await stub.SendMessage(answered, metadata=list(known.items()))
            async with asyncio.timeout(30):
                while not hook.received:  # noqa: ASYNC110 - as who waits for a webhook
                    await asyncio.sleep(0.05)
    assert WORDS["webhook token"] in str(hook.received[0].headers), "the run has used its secrets"
    whole = (tmp_path / "out.server").read_text() + (tmp_path / "out.gateway").read_text()
    assert '"event":"call"' in whole
    assert "agent.failed" in whole
    assert "policy.failed" in whole
    assert "call.denied" in (tmp_path / "data" / "audit.log").read_text()
    assert not run.leaks()


def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    """Each secret in each place, and nothing where there is nothing."""
    (tmp_path / "data").mkdir()
    files = [tmp_path / name for name in ("out.server", "out.gateway")]
    files += [tmp_path / "data" / name for name in ("a2a.db", "audit.log", "tokens.toml")]
    for path in files:
        path.write_text("nothing")
    run = Run(tmp_path, WORDS, trustme.CA())
    run.kept["running a2a.db-wal"] = b"nothing"
    run.note("nothing")
    assert run.leaks() == []
    for name, secret in WORDS.items():
        for path in files:
            path.write_text(f"x{secret}y")
            assert run.leaks() == [(name, path.name)]
            path.write_text("nothing")
        run.kept["running a2a.db-wal"] = base64.b64encode(f"x{secret}".encode())
        assert run.leaks() == [(name, "running a2a.db-wal")]
        run.kept["running a2a.db-wal"] = b"nothing"
        run.note("x", secret)
        assert run.leaks() == [(name, "answers")]
        run.answers.pop()


def test_the_search_finds_every_spelling() -> None:
    secret = WORDS["token"]
    run = [base64.b64encode(f"{'x' * many}{secret}yz".encode()) for many in range(6)]
    run += [base64.urlsafe_b64encode(secret.encode()), secret.encode().hex().encode(), quote(secret).encode()]
    for content in run:
        assert any(spelling in content for spelling in spellings(secret)), content
