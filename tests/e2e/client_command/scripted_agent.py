"""An agent that does what the text of a message says, on pb messages and without timers (spec: cli.md, 5).

`quick` completes at once, `slow` after some questions, `message` answers without a task, `endless` never ends,
`silent` never answers, `parts` hands over parts of every kind, `names` files with odd names, `state NAME` stops
in that state, `refuse REASON` answers with that error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb

NAMES = ("../../etc/passwd", "..", "C:\\windows\\a.txt", "a/\u202egpj.exe", "\u00e4" * 200 + ".pdf", "A.TXT", "a.txt")
"""Of files that an agent may hand over."""
POLLS = 2
"""How often a slow task is asked for before it is done."""


class Refusal(Exception):  # noqa: N818 - what agents do
    """An error that A2A names, or one of gRPC's."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason


class Cut(Exception):  # noqa: N818 - what happens
    """The connection breaks here."""


@dataclass(frozen=True)
class ScriptedCall:
    """What has arrived."""

    rpc: str
    binding: str
    request: Any
    headers: Mapping[str, str]
    query: Mapping[str, str]


@dataclass
class ScriptedAgent:
    """Its tasks, and what it was asked. Tests change `demands`, and look at `calls`."""

    calls: list[ScriptedCall] = field(default_factory=list)
    tasks: dict[str, pb.Task] = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    configs: dict[str, pb.TaskPushNotificationConfig] = field(default_factory=dict)
    demands: Callable[[ScriptedCall], bool] | None = None
    """Whether a call may pass."""
    cuts: int = 0
    """How many more streams break."""
    extended: pb.AgentCard = field(default_factory=pb.AgentCard)
    _ids: Any = field(default_factory=lambda: count(1))

    def reset(self) -> None:
        self.calls.clear()
        self.demands, self.cuts = None, 0

    def rpcs(self) -> list[str]:
        return [call.rpc for call in self.calls]

    def sent(self) -> pb.SendMessageRequest:
        """The last message that arrived."""
        found: pb.SendMessageRequest = next(c.request for c in reversed(self.calls) if "Message" in c.rpc)
        return found

    # -- calls, from whatever door

    async def answer(self, call: ScriptedCall) -> Message:
        self._take(call)
        request = call.request
        match call.rpc:
            case "SendMessage":
                return await self._send(request)
            case "GetTask":
                return self._get(request)
            case "CancelTask":
                return self._cancel(request)
            case "ListTasks":
                return self._list(request)
            case "GetExtendedAgentCard":
                return self.extended
        return self._config(call.rpc, request)

    async def events(self, call: ScriptedCall) -> AsyncIterator[pb.StreamResponse]:
        self._take(call)
        if call.rpc == "SubscribeToTask":
            task = self._known(call.request.id)
            yield pb.StreamResponse(task=task)
        else:
            words = text_of(call.request)
            if words == "message":
                yield pb.StreamResponse(message=_reply(call.request.message))
                return
            await self._obstacles(words)
            task = self._begin(call.request.message)
            yield pb.StreamResponse(task=task)
        async for event in self._course(task):
            yield event

    def _take(self, call: ScriptedCall) -> None:
        self.calls.append(call)
        if self.demands is not None and not self.demands(call):
            raise Refusal("UNAUTHENTICATED", "who are you?")

    # -- what happens to a task

    async def _course(self, task: pb.Task) -> AsyncIterator[pb.StreamResponse]:
        words = words_of(task)
        if self.cuts:
            self.cuts -= 1
            raise Cut
        if words == "endless":
            await asyncio.Event().wait()
        yield _status(task, pb.TASK_STATE_WORKING, "on it")
        if words.startswith("state UNSPECIFIED"):
            yield _status(task, pb.TASK_STATE_UNSPECIFIED, "")
        for number, artifact in enumerate(_artifacts(words)):
            update = pb.TaskArtifactUpdateEvent(task_id=task.id, context_id=task.context_id, artifact=artifact)
            update.last_chunk = True
            if number == 0 and words == "slow":
                yield pb.StreamResponse(artifact_update=_piece(update, "one\n", append=False))
                update = _piece(update, "two", append=True)
            yield pb.StreamResponse(artifact_update=update)
        self._finish(task)
        yield pb.StreamResponse(
            status_update=pb.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
        )

    async def _send(self, request: pb.SendMessageRequest) -> pb.SendMessageResponse:
        words = text_of(request)
        if words == "message":
            return pb.SendMessageResponse(message=_reply(request.message))
        await self._obstacles(words)
        task = self._begin(request.message)
        if not request.configuration.return_immediately or words == "quick":
            self._finish(task)
        return pb.SendMessageResponse(task=task)

    async def _obstacles(self, words: str) -> None:
        if words == "silent":
            await asyncio.Event().wait()
        if words.startswith("refuse "):
            raise Refusal(words.split()[1], words)

    def _begin(self, message: pb.Message) -> pb.Task:
        if message.task_id:
            task = self._known(message.task_id)
            if task.status.state not in {pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED}:
                raise Refusal("UNSUPPORTED_OPERATION", "the task is finished")
        else:
            number = next(self._ids)
            task = pb.Task(id=f"task-{number}", context_id=message.context_id or f"context-{number}")
            self.tasks[task.id] = task
        task.history.append(message)
        task.metadata["words"] = message.parts[0].text
        task.status.CopyFrom(pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED))
        self.polls[task.id] = 0
        return task

    def _finish(self, task: pb.Task) -> None:
        words = words_of(task)
        state = f"TASK_STATE_{words.split()[1]}" if words.startswith("state ") else "TASK_STATE_COMPLETED"
        state = "TASK_STATE_COMPLETED" if state.endswith("UNSPECIFIED") else state
        del task.artifacts[:]
        task.artifacts.extend(_artifacts(words))
        task.status.CopyFrom(_said(task, pb.TaskState.Value(state), "Which one?" if "INPUT" in state else "done"))

    def _get(self, request: pb.GetTaskRequest) -> pb.Task:
        task = self._known(request.id)
        words, self.polls[task.id] = words_of(task), self.polls.get(task.id, 0) + 1
        if task.status.state in {pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING, pb.TASK_STATE_UNSPECIFIED}:
            unspecified = words.startswith("state UNSPECIFIED")
            task.status.state = pb.TASK_STATE_UNSPECIFIED if unspecified else pb.TASK_STATE_WORKING
            if self.polls[task.id] >= POLLS and words != "endless":
                self._finish(task)
        shown = pb.Task()
        shown.CopyFrom(task)
        if request.HasField("history_length"):
            kept = list(task.history)[len(task.history) - request.history_length :] if request.history_length else []
            del shown.history[:]
            shown.history.extend(kept)
        return shown

    def _cancel(self, request: pb.CancelTaskRequest) -> pb.Task:
        task = self._known(request.id)
        if task.status.state in {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_REJECTED}:
            raise Refusal("TASK_NOT_CANCELABLE", "the task is finished")
        task.status.state = pb.TASK_STATE_CANCELED
        return task

    def _list(self, request: pb.ListTasksRequest) -> pb.ListTasksResponse:
        found = [
            task
            for task in self.tasks.values()
            if request.context_id in {"", task.context_id} and request.status in {0, task.status.state}
        ]
        start = int(request.page_token or 0)
        end = start + (request.page_size or 50)
        more = str(end) if end < len(found) else ""
        page = found[start:end]
        return pb.ListTasksResponse(tasks=page, next_page_token=more, page_size=len(page), total_size=len(found))

    def _config(self, rpc: str, request: Any) -> Message:
        self._known(request.task_id)
        if rpc.startswith("Create"):
            config = pb.TaskPushNotificationConfig()
            config.CopyFrom(request)
            config.id = config.id or f"config-{len(self.configs) + 1}"
            self.configs[config.id] = config
            return config
        if rpc.startswith("List"):
            return pb.ListTaskPushNotificationConfigsResponse(configs=self.configs.values())
        if request.id not in self.configs:
            raise Refusal("TASK_NOT_FOUND", "no such config")
        if rpc.startswith("Delete"):
            del self.configs[request.id]
            return Empty()
        return self.configs[request.id]

    def _known(self, task_id: str) -> pb.Task:
        if task_id not in self.tasks:
            raise Refusal("TASK_NOT_FOUND", f"there is no task {task_id}")
        return self.tasks[task_id]


def text_of(request: pb.SendMessageRequest) -> str:
    return request.message.parts[0].text


def words_of(task: pb.Task) -> str:
    return task.metadata.fields["words"].string_value


def _reply(message: pb.Message) -> pb.Message:
    parts = [pb.Part(text="just words")]
    return pb.Message(message_id="reply-1", role=pb.ROLE_AGENT, parts=parts, context_id=message.context_id or "c-1")


def _said(task: pb.Task, state: int, text: str) -> pb.TaskStatus:
    status = pb.TaskStatus(state=state)  # type: ignore[arg-type]
    if text:
        status.message.CopyFrom(
            pb.Message(
                message_id=f"{task.id}-{state}",
                role=pb.ROLE_AGENT,
                task_id=task.id,
                context_id=task.context_id,
                parts=[pb.Part(text=text)],
            )
        )
    return status


def _status(task: pb.Task, state: int, text: str) -> pb.StreamResponse:
    update = pb.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=_said(task, state, text))
    return pb.StreamResponse(status_update=update)


def _piece(update: pb.TaskArtifactUpdateEvent, text: str, *, append: bool) -> pb.TaskArtifactUpdateEvent:
    piece = pb.TaskArtifactUpdateEvent()
    piece.CopyFrom(update)
    piece.artifact.parts[0].text, piece.append, piece.last_chunk = text, append, append
    return piece


def _artifacts(words: str) -> list[pb.Artifact]:
    if words == "parts":
        data = pb.Part(media_type="application/json")
        data.data.struct_value.update({"seats": 2})
        parts = [
            pb.Part(text="first line\n\nState: not a field\x1b[31m\n"),
            data,
            pb.Part(raw=b"%PDF", filename="../plan.pdf", media_type="application/pdf"),
            pb.Part(url="https://files.invalid/big.bin", filename="big.bin", media_type="application/octet-stream"),
        ]
        return [pb.Artifact(artifact_id="a-1", name="plan", parts=parts)]
    if words == "names":
        parts = [pb.Part(raw=b"x", filename=name) for name in NAMES]
        return [pb.Artifact(artifact_id="../x", parts=parts)]
    text = "one\ntwo" if words == "slow" else words
    return [pb.Artifact(artifact_id="a-1", name="echo", parts=[pb.Part(text=text)])]
