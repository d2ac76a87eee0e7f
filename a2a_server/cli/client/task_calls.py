"""What the commands of `a2ad task` do (spec: CLI-26, -27, -53, -54, -62, -66; OP-09, OP-11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from google.protobuf.empty_pb2 import Empty

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.connected_agent import ConnectedAgent, run
from a2a_server.cli.client.downloads import save
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.output import tell
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.client.waiting import final_task, followed, polled
from a2a_server.client import CallError
from a2a_server.domain.lifecycle import STOPPING
from a2a_server.protocol.errors import Reason

_MOST_PAGES = 10_000


def get(told: GivenSettings, task_id: str) -> None:
    async def work(agent: ConnectedAgent) -> None:
        agent.task_id = task_id
        task = await agent.remote.get_task(task_id, history_length=agent.settings.history)
        if agent.settings.wait and task.status.state not in STOPPING:
            async for event in polled(agent, task_id, task):
                task = event.task
        agent.printer.result(task)
        agent.ended(task.status.state)

    run(told, work)


def list_(told: GivenSettings, *, status: str, page_size: int | None, page_token: str) -> None:
    request = pb.ListTasksRequest(
        context_id=told.values.context_id,
        status=_state(status),  # type: ignore[arg-type]
        page_size=page_size,
        page_token=page_token,
        history_length=told.values.history,
    )

    async def work(agent: ConnectedAgent) -> None:
        page = await agent.remote.list_tasks(request)
        if not agent.settings.stream:
            agent.printer.result(page)
            return
        for _ in range(_MOST_PAGES):
            for task in page.tasks:
                agent.printer.result(task)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
            page = await agent.remote.list_tasks(request)
        tell(f"Warning: only the first {_MOST_PAGES} pages are shown; there are more")

    run(told, work)


def _state(name: str) -> int:
    if not name:
        return pb.TASK_STATE_UNSPECIFIED
    word = name.upper().replace("-", "_")
    word = word if word.startswith("TASK_STATE_") else f"TASK_STATE_{word}"
    if word not in pb.TaskState.keys() or word == "TASK_STATE_UNSPECIFIED":  # noqa: SIM118 - not a dict
        known = ", ".join(state.removeprefix("TASK_STATE_").lower() for state in pb.TaskState.keys()[1:])
        raise usage(f"--status {name!r} is no state", f"The states are {known}.")
    return pb.TaskState.Value(word)


def cancel(told: GivenSettings, task_id: str) -> None:
    async def work(agent: ConnectedAgent) -> None:
        agent.task_id = task_id
        agent.printer.result(await agent.remote.cancel_task(task_id, metadata=agent.settings.metadata))

    run(told, work)


def subscribe(told: GivenSettings, task_id: str) -> None:
    async def work(agent: ConnectedAgent) -> None:
        agent.task_id = task_id
        last = pb.StreamResponse()
        async for event in _events(agent, task_id):
            last = event
            if agent.settings.stream:
                agent.printer.event(event)
        state = last.task.status.state if last.HasField("task") else last.status_update.status.state
        if not agent.settings.stream:
            task = await final_task(agent, last)
            agent.printer.result(task)
            state = task.status.state
        agent.ended(state)

    run(told, work)


async def _events(agent: ConnectedAgent, task_id: str) -> AsyncIterator[pb.StreamResponse]:
    if not agent.remote.card.capabilities.streaming:
        tell("Warning: the card offers no streaming; the task is asked for instead")
        async for event in polled(agent, task_id):
            yield event
        return
    try:
        async for event in followed(agent, agent.remote.subscribe(task_id), task_id):
            yield event
    except CallError as error:
        task = await _finished(agent, task_id) if error.reason is Reason.UNSUPPORTED_OPERATION else None
        if task is None:
            raise
        yield pb.StreamResponse(task=task)


async def _finished(agent: ConnectedAgent, task_id: str) -> pb.Task | None:
    """Return a task that cannot be followed because it is finished."""
    task = await agent.remote.get_task(task_id, history_length=agent.settings.history)
    return task if task.status.state in STOPPING else None


def download(told: GivenSettings, task_id: str, *, folder: str, force: bool, linked: bool) -> None:
    async def work(agent: ConnectedAgent) -> None:
        task = await agent.remote.get_task(task_id)
        await save(agent, task, folder, force=force, linked=linked)

    run(told, work)


def create_config(  # noqa: PLR0913 - the options of the command
    told: GivenSettings, task_id: str, *, url: str, config_id: str, token: str, auth_scheme: str, auth_credentials: str
) -> None:
    if auth_credentials and not auth_scheme:
        raise usage("--auth-credentials needs --auth-scheme", "Such as: --auth-scheme Bearer")
    config = pb.TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url, token=token)
    if auth_scheme:
        config.authentication.scheme, config.authentication.credentials = auth_scheme, auth_credentials

    async def work(agent: ConnectedAgent) -> None:
        agent.printer.result(await agent.remote.create_push_config(config))

    _with_push(told, work)


def get_config(told: GivenSettings, task_id: str, config_id: str) -> None:
    async def work(agent: ConnectedAgent) -> None:
        agent.printer.result(await agent.remote.get_push_config(task_id, config_id))

    _with_push(told, work)


def list_configs(told: GivenSettings, task_id: str, *, page_size: int | None, page_token: str) -> None:
    async def work(agent: ConnectedAgent) -> None:
        page = await agent.remote.list_push_configs(task_id, page_size=page_size or 0, page_token=page_token)
        agent.printer.result(page)

    _with_push(told, work)


def delete_config(told: GivenSettings, task_id: str, config_id: str) -> None:
    async def work(agent: ConnectedAgent) -> None:
        await agent.remote.delete_push_config(task_id, config_id)
        agent.printer.result(Empty())

    _with_push(told, work)


def _with_push(told: GivenSettings, work: Callable[[ConnectedAgent], Awaitable[None]]) -> None:
    """Ask only agents whose card offers push notifications (CLI-58)."""

    async def checked(agent: ConnectedAgent) -> None:
        agent.need(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, offered=agent.remote.card.capabilities.push_notifications)
        await work(agent)

    run(told, checked)
