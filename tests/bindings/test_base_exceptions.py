"""Agents that raise what no `except Exception` catches, or return what never ran (spec: SEND-12, EXEC-04)."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn, Violation
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.ports.store import Store
from tests.bindings.actors import CANCELED, FAILED, PATIENT, Actor, at_rest, begun, status
from tests.support.world import refused, say, serving


class Own(BaseException):
    """What an author's library may raise."""


KINDS: list[Callable[[], BaseException]] = [
    lambda: SystemExit("hunter2"),
    lambda: KeyboardInterrupt("hunter2"),
    lambda: GeneratorExit("hunter2"),
    lambda: BaseExceptionGroup("hunter2", [SystemExit(1), ValueError("hunter2")]),
    lambda: Own("hunter2"),
]
kinds = pytest.mark.parametrize("error", KINDS, ids=["exit", "interrupt", "generator", "group", "own"])
moments = pytest.mark.parametrize("late", [False, True], ids=["at-once", "after-an-await"])


def function(error: Callable[[], BaseException], *, late: bool) -> Agent:
    agent = Agent("Raises", "Raises.", "1.0.0")

    @agent.skill(id="raise", tags=["test"])
    async def raises(turn: Turn) -> str:
        if late:
            await asyncio.sleep(0.01)
        raise error()

    return agent


def generator(error: Callable[[], BaseException], *, late: bool) -> Agent:
    agent = Agent("Raises", "Raises.", "1.0.0")

    @agent.skill(id="raise", tags=["test"])
    async def raises(turn: Turn) -> AsyncIterator[str]:
        if late:
            yield "half"
            await asyncio.sleep(0.01)
        raise error()

    return agent


def adapter(error: Callable[[], BaseException], *, late: bool) -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if late:
            await asyncio.sleep(0.01)
        raise error()

    return Actor(act)


def at_the_call(error: Callable[[], BaseException], *, late: bool) -> Actor:
    class Plain(Actor):
        def run(self, request: TurnRequest, outlet: Outlet) -> Any:
            raise error()

    return Plain(_nothing)


async def _nothing(request: TurnRequest, outlet: Outlet) -> None:
    outlet.emit(status(pb.TASK_STATE_COMPLETED))


@pytest.mark.req("SEND-12", "EXEC-04")
@kinds
@moments
@pytest.mark.parametrize("kind", [function, generator, adapter, at_the_call])
async def test_the_task_fails_at_once(
    store: Store,
    kind: Any,
    error: Callable[[], BaseException],
    late: bool,  # noqa: FBT001 - a parameter
) -> None:
    async with serving(kind(error, late=late), store=store) as world:
        task = await world.send(say(), timeout=10)
        assert (task.status.state, task.status.message.metadata["reason"]) == (FAILED, "AGENT_FAILED")
        assert "hunter2" not in str(task)
        assert (await world.stream(say()))[-1].status_update.status.state == FAILED
        await at_rest(world)


@pytest.mark.req("CANC-01", "EXEC-04")
@kinds
async def test_a_canceled_task_is_canceled_whatever_its_clean_up_raises(error: Callable[[], BaseException]) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(pb.TASK_STATE_WORKING))
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            raise error()

    async with serving(Actor(act), limits=PATIENT) as world:
        sending = asyncio.ensure_future(world.send(say(), timeout=10))
        canceled = await world.stub.CancelTask(pb.CancelTaskRequest(id=await begun(world)), timeout=10)
        assert canceled.status.state == CANCELED
        assert (await sending).status.state == CANCELED
        await at_rest(world)


class Trusting:
    """Knows everybody."""

    required = True
    card = CardSecurity(
        schemes={"bearer": pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Bearer"))},
    )

    async def authenticate(self, credentials: Credentials) -> Caller:
        return Caller("ann", authenticated=True, extended_card=True)


class Hooks(Actor):
    """Every hook ends as the test says; from the second plan on, if it is to start at all."""

    def __init__(self, hook: str, end: Callable[[], Any]) -> None:
        super().__init__(_nothing)
        self.card.capabilities.extended_agent_card = True
        self._hook = hook
        self._end = end

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        return self._end() if self._hook == "extended" else None

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        return self._end() if self._hook == "check" else ()

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        return self._end() if self._hook == "plan" else Plan()


def raising(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def end() -> Any:
        raise error()

    return end


async def coroutine() -> Plan:
    return Plan()


@pytest.mark.req("SEND-12", "ERRS-07")
@pytest.mark.parametrize("hook", ["plan", "check", "extended"])
@pytest.mark.parametrize("end", [*map(raising, KINDS), coroutine])
@pytest.mark.filterwarnings("error")
async def test_a_hook_fails_its_call_alone(hook: str, end: Callable[[], Any]) -> None:
    async with serving(Hooks(hook, end), authenticator=Trusting()) as world:
        if hook == "extended":
            call = world.stub.GetExtendedAgentCard(pb.GetExtendedAgentCardRequest(), timeout=10)
        else:
            call = world.stub.SendMessage(say(), timeout=10)
        answer = await refused(call)
        assert (answer.code, answer.message) == (grpc.StatusCode.INTERNAL, "Internal error.")
        await world.stub.ListTasks(pb.ListTasksRequest(), timeout=10)
        await at_rest(world)


# -- what never ran


def values() -> Any:
    yield "a"


async def stream() -> AsyncIterator[str]:
    yield "a"


WRONG: dict[str, tuple[Callable[[Turn], Any], str]] = {
    "coroutine": (lambda _: coroutine(), "the coroutine coroutine() was not awaited; write `await`"),
    "nested": (lambda _: {"a": [coroutine()]}, "data.a[0]: the coroutine coroutine() was not awaited"),
    "call": (lambda turn: turn.ask("And?"), "the coroutine Turn.ask() was not awaited"),
    "generator": (lambda _: values(), "values() is a generator, which is no value"),
    "stream": (lambda _: stream(), "stream() is a generator, which is no value"),
}


@pytest.mark.req("EXEC-05", "SEND-12")
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("way", ["return", "yield", "adapter", "message"])
async def test_what_never_ran_is_named_and_closed(case: str, way: str) -> None:
    make, why = WRONG[case]
    if way in {"adapter", "message"} and case in {"nested", "call"}:
        pytest.skip("the same as the first case")
    if way == "message" and case == "generator":
        pytest.skip("a message may be any series of parts")
    agent: Any = Agent("Wrong", "Returns the wrong things.", "1.0.0")

    async def returns(turn: Turn) -> Any:
        if way == "message":
            await turn.fail(make(turn))
        return make(turn)

    async def yields(turn: Turn) -> AsyncIterator[Any]:
        yield make(turn)

    if way == "adapter":

        class Adapter(Actor):
            async def run(self, request: TurnRequest, outlet: Outlet) -> Any:
                return make(Any)  # type: ignore[arg-type]

        agent = Adapter(_nothing)
    else:
        agent.skill(id="wrong", tags=["test"])(yields if way == "yield" else returns)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with serving(agent) as world:
            await refused(world.stub.SendMessage(say(), timeout=10))
            (task,) = (await world.stub.ListTasks(pb.ListTasksRequest())).tasks
            task = await world.get(task.id)
            await at_rest(world)
        gc.collect()
    assert task.status.state == FAILED
    assert why.removeprefix("data.a[0]: ") in task.status.message.parts[0].text
    assert not [warning for warning in seen if "never awaited" in str(warning.message)]
