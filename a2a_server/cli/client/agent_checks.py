"""What `a2ad conformance` finds out about an agent; each check names its requirement (spec: CLI-64; OP-12)."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import click

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.card_calls import faults_of
from a2a_server.cli.client.connected_agent import calling, connected, find_card
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.output import write_json
from a2a_server.cli.client.plain_text import one_line
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.client import AgentError, CallError, FoundCard, Remote, UnreachableError
from a2a_server.protocol.errors import Reason

_SPOKEN: Final = ("GRPC", "JSONRPC", "HTTP+JSON")
_NO_EXTENDED_CARD: Final = (Reason.UNSUPPORTED_OPERATION, Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED)
_TCK: Final = "run_tck.py"


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """One finding."""

    requirement: str
    result: Literal["pass", "fail", "skipped"]
    interface: str = ""
    note: str = ""


def check_agent(told: GivenSettings, *, read_only: bool, tck: str) -> None:
    kit = Path(tck).expanduser().resolve() if tck else None
    if kit and not (kit / _TCK).is_file():
        raise usage(f"--tck {tck}: there is no {_TCK} in this folder", "Name the folder of a checkout of the A2A TCK.")
    checks = asyncio.run(_checked(told, kit, read_only=read_only))
    conforms = not any(check.result == "fail" for check in checks)
    if told.values.output == "json":
        write_json({"conforms": conforms, "checks": [asdict(check) for check in checks]})
        return
    for check in checks:
        where = f" [{check.interface}]" if check.interface else ""
        note = f" ({check.note})" if check.note else ""
        click.echo(one_line(f"{check.result.capitalize()}: {check.requirement}{where}{note}"))
    click.echo(f"Conforms: {'yes' if conforms else 'no'}")


async def _checked(told: GivenSettings, kit: Path | None, *, read_only: bool) -> list[AgentCheck]:
    async with calling(told):
        found = await find_card(told)
        checks = [_card(found.card)]
        for interface in found.card.supported_interfaces:
            name = f"{interface.protocol_binding} {interface.protocol_version} {interface.url}"
            checks += [
                AgentCheck(check.requirement, check.result, name, check.note)
                async for check in _interface(told, found, interface, read_only=read_only)
            ]
    if kit:
        checks.append(await _run_tck(found, kit))
    return checks


def _card(card: pb.AgentCard) -> AgentCheck:
    faults = list(faults_of(card))
    text = "The agent card has every required member"
    return AgentCheck(text, "fail" if faults else "pass", note="; ".join(faults))


async def _interface(
    told: GivenSettings, found: FoundCard, interface: pb.AgentInterface, *, read_only: bool
) -> AsyncIterator[AgentCheck]:
    """Check one interface as if it were the only one."""
    text = "The interface can be called"
    version = told.values.a2a_version or "1.0"
    if interface.protocol_binding not in _SPOKEN or interface.protocol_version != version:
        yield AgentCheck(text, "skipped", note=f"only {', '.join(_SPOKEN)} of A2A {version} are checked")
        return
    card = pb.AgentCard()
    card.CopyFrom(found.card)
    del card.supported_interfaces[:]
    card.supported_interfaces.append(interface)
    try:
        async with connected(told, FoundCard(card, found.document, found.url)) as agent:
            async for check in _questions(agent.remote, read_only=read_only):
                yield check
    except UnreachableError as error:
        yield AgentCheck(text, "fail", note=error.message)


async def _questions(remote: Remote, *, read_only: bool) -> AsyncIterator[AgentCheck]:
    offers = remote.card.capabilities
    unknown = f"unknown-{uuid4()}"
    text = "GetTask of an unknown task is TaskNotFoundError"
    yield await _refused(text, remote.get_task(unknown), Reason.TASK_NOT_FOUND)
    text = "CancelTask of an unknown task is TaskNotFoundError"
    yield await _refused(text, remote.cancel_task(unknown), Reason.TASK_NOT_FOUND)
    yield await _answered("ListTasks is answered", remote.list_tasks())
    if not offers.push_notifications:
        text = "Push configs that the card does not offer are PushNotificationNotSupportedError"
        config = pb.TaskPushNotificationConfig(task_id=unknown, url="https://webhook.invalid/")
        yield await _refused(text, remote.create_push_config(config), Reason.PUSH_NOTIFICATION_NOT_SUPPORTED)
    if not offers.extended_agent_card:
        text = "An extended card that the card does not offer is UnsupportedOperationError"
        yield await _refused(text, remote.get_extended_agent_card(), *_NO_EXTENDED_CARD)
    if not read_only:
        yield await _sent(remote)
        yield await _streamed(remote, offered=offers.streaming)


async def _refused(text: str, call: Awaitable[object], *expected: Reason) -> AgentCheck:
    try:
        await call
    except AgentError as error:
        if error.reason in expected:
            return AgentCheck(text, "pass")
        return AgentCheck(text, "fail", note=f"it is {error.name or error.message}")
    except CallError as error:
        return _not_found_out(text, error)
    return AgentCheck(text, "fail", note="it is answered without an error")


async def _answered(text: str, call: Awaitable[object]) -> AgentCheck:
    try:
        await call
    except AgentError as error:
        return AgentCheck(text, "fail", note=error.message)
    except CallError as error:
        return _not_found_out(text, error)
    return AgentCheck(text, "pass")


def _not_found_out(text: str, error: CallError) -> AgentCheck:
    if isinstance(error, UnreachableError):
        raise error
    return AgentCheck(text, "skipped", note=error.message)


async def _sent(remote: Remote) -> AgentCheck:
    text = "SendMessage is answered by a message, or by a task that GetTask finds"

    async def work() -> None:
        answer = await remote.send("hello", configuration=pb.SendMessageConfiguration(return_immediately=True))
        if answer.HasField("task"):
            await remote.get_task(answer.task.id)
        elif not answer.message.message_id:
            raise AgentError("it is neither a task nor a message with an id")

    return await _answered(text, work())


async def _streamed(remote: Remote, *, offered: bool) -> AgentCheck:
    async def first() -> None:
        stream = remote.stream("hello")
        try:
            event = await anext(stream, None)
        finally:
            await stream.aclose()
        if event is None or event.WhichOneof("payload") not in {"task", "message"}:
            raise AgentError("the first event is neither a task nor a message")

    if offered:
        return await _answered("A stream begins with a task or a message", first())
    text = "Streaming that the card does not offer is UnsupportedOperationError"
    return await _refused(text, first(), Reason.UNSUPPORTED_OPERATION)


async def _run_tck(found: FoundCard, folder: Path) -> AgentCheck:
    """Start the kit; what it says goes to stderr."""
    parts = urlsplit(found.url)
    program = ["uv", "run"] if shutil.which("uv") else [sys.executable]
    line = [*program, str(folder / _TCK), "--sut-host", f"{parts.scheme}://{parts.netloc}"]
    process = await asyncio.create_subprocess_exec(*line, cwd=folder, stdout=sys.stderr, stderr=sys.stderr)
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    return AgentCheck("The A2A TCK passes", "fail" if code else "pass", note=f"exit code {code}")
