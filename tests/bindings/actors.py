"""Agents that do what a test tells them, on the bare port: well-behaved ones and all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, cast

import grpc
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Violation
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.authenticator import ANONYMOUS, Caller
from a2a_server.ports.records import Entry, Write
from a2a_server.ports.store import Store
from tests.support.house import Call, Core, Limits, Scope, UnaryOperation
from tests.support.world import Refusal, World, refusal

Act = Callable[[TurnRequest, Outlet], Awaitable[None]]

WORKING = pb.TASK_STATE_WORKING
INPUT = pb.TASK_STATE_INPUT_REQUIRED
AUTH = pb.TASK_STATE_AUTH_REQUIRED
COMPLETED = pb.TASK_STATE_COMPLETED
FAILED = pb.TASK_STATE_FAILED
CANCELED = pb.TASK_STATE_CANCELED
REJECTED = pb.TASK_STATE_REJECTED
SUBMITTED = pb.TASK_STATE_SUBMITTED


class Actor:
    """An agent with one function behind it; remembers what it was asked."""

    def __init__(self, act: Act, *, plan: Plan | None = None, streaming: bool = True) -> None:
        self.requests: list[TurnRequest] = []
        self._act = act
        self._plan = plan or Plan()
        self.card = pb.AgentCard(
            name="Actor",
            description="Does what a test tells it.",
            version="1.0.0",
            default_input_modes=["text/plain", "application/json"],
            default_output_modes=["text/plain"],
            capabilities=pb.AgentCapabilities(streaming=streaming),
            skills=[pb.AgentSkill(id="act", name="Act", description="Acts.", tags=["test"])],
        )

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        return None

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        return ()

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        return self._plan

    async def run(self, request: TurnRequest, outlet: Outlet) -> None:
        self.requests.append(request)
        await self._act(request, outlet)


PATIENT = Limits(cancel_grace=30.0, drain_grace=0.05)
"""For agents that do stop when they are canceled, however busy the machine is."""


class Gate:
    """A place in an agent where a test can hold it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        """For the agent: say that we are here, and wait."""
        self.reached.set()
        await self.opened.wait()

    def open(self) -> None:
        self.opened.set()


def says(text: str) -> pb.Message:
    return pb.Message(parts=[pb.Part(text=text)])


def status(state: pb.TaskState, text: str = "", *, task_id: str = "") -> pb.StreamResponse:
    message = says(text) if text else None
    update = pb.TaskStatusUpdateEvent(task_id=task_id, status=pb.TaskStatus(state=state, message=message))
    return pb.StreamResponse(status_update=update)


def chunk(text: str, *, artifact_id: str = "a", append: bool = False, last: bool = False) -> pb.StreamResponse:
    artifact = pb.Artifact(artifact_id=artifact_id, parts=[pb.Part(text=text)])
    return pb.StreamResponse(
        artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact, append=append, last_chunk=last)
    )


def echo() -> Actor:
    """Completes at once, with the text as its artifact."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk(request.message.parts[0].text, last=True))
        outlet.emit(status(COMPLETED))

    return Actor(act)


def waiting(gate: Gate, *, ends: pb.TaskState = COMPLETED, plan: Plan | None = None, streaming: bool = True) -> Actor:
    """Works until the test opens the gate."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        outlet.emit(status(ends))

    return Actor(act, plan=plan, streaming=streaming)


def asking(question: str = "And?") -> Actor:
    """Asks in the first turn and completes in the next."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(INPUT, question) if request.number == 1 else status(COMPLETED))

    return Actor(act)


def texts(artifact: pb.Artifact) -> list[str]:
    return [part.text for part in artifact.parts]


def watch_writes(store: Store) -> list[Write]:
    """Everything that is committed from now on."""
    writes: list[Write] = []
    commit = store.commit

    async def watched(write: Write) -> bool:
        writes.append(write)
        return await commit(write)

    store.commit = watched  # type: ignore[method-assign]
    return writes


def watch_calls(world: World) -> list[str]:
    """The unary calls that reach the pipeline from now on; clients of several connections may overtake each other."""
    arrived: list[str] = []
    unary = world.pipeline.unary

    async def watched(rpc: str, *args: Any, **kwargs: Any) -> Any:
        arrived.append(rpc)
        return await unary(rpc, *args, **kwargs)

    world.pipeline.unary = watched  # type: ignore[method-assign]
    return arrived


def hold_commits(store: Store) -> Gate:
    """Let no commit through before the gate opens."""
    gate, commit = Gate(), store.commit

    async def held(write: Write) -> bool:
        await gate.wait()
        return await commit(write)

    store.commit = held  # type: ignore[method-assign]
    return gate


CALL = Call(caller=Caller(), scope=Scope("", ANONYMOUS))


async def ask(core: Core, name: str, request: Message) -> Any:
    """Call an operation without a door, so that the test decides what happens when."""
    return await cast("UnaryOperation", core.operations[name])(CALL, request)


async def log_of(core: Core, task_id: str) -> Sequence[Entry]:
    return await core.services.store.entries(task_id, 0, 1_000_000)


def statuses(entries: Sequence[Entry]) -> list[str]:
    updates = [entry.event.status_update for entry in entries if entry.event.HasField("status_update")]
    return [pb.TaskState.Name(update.status.state).removeprefix("TASK_STATE_") for update in updates]


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that nobody announces."""
    async with asyncio.timeout(30):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.001)


async def at_rest(world: World) -> None:
    """Wait until nothing is left of any call or turn."""
    core, streams, http = world.core, world.pipeline.streams, world.http
    await until(
        lambda: (
            not (
                core.live_turns or core.services.log.watched or streams.count or core.services.agents.root.slots.running
            )
        )
    )
    if http is not None:
        await until(lambda: not http.streams.count)


async def begun(world: World) -> str:
    """The id of the one task that is being worked on, once clients can see it."""
    found: list[str] = []

    async def visible() -> bool:
        found[:] = [task.id for task in (await world.stub.ListTasks(pb.ListTasksRequest())).tasks]
        return len(found) == 1

    await until(visible)
    return found[0]


async def remembers(world: World, task_id: str, messages: int) -> None:
    """Wait until the task's history has that many messages."""

    async def enough() -> bool:
        return len((await world.get(task_id)).history) >= messages

    await until(enough)


async def cut_short(items: AsyncIterator[pb.StreamResponse]) -> tuple[list[pb.StreamResponse], Refusal]:
    """What a stream still shows, and the error that it must end with."""
    seen: list[pb.StreamResponse] = []
    try:
        async for item in items:
            seen.append(item)  # noqa: PERF401 - what came before the error counts
    except grpc.aio.AioRpcError as error:
        return seen, refusal(error)
    raise AssertionError(f"the stream ended well: {seen}")
