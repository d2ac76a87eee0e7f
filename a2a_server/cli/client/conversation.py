"""A conversation on a terminal: turns, questions answered inline, Ctrl-C to cancel (spec: CLI-02, CLI-72, CLI-74)."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.connected_agent import ConnectedAgent
from a2a_server.cli.client.live_view import LiveView
from a2a_server.cli.client.output import TextPrinter, resume, tell
from a2a_server.cli.client.parts import message_of
from a2a_server.cli.client.sending import request_of
from a2a_server.cli.client.waiting import SendOutcome, followed, send
from a2a_server.client import CallError
from a2a_server.domain.lifecycle import AUTH, INPUT, INTERRUPTED


async def converse(agent: ConnectedAgent, request: pb.SendMessageRequest | None, *, goes_on: bool) -> None:
    """Run turns until the person has had enough; without `goes_on`, until the first outcome."""
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - gives `input` a history and editing
    agent.is_watched = True
    talk = Conversation(agent, LiveView(TextPrinter(agent.program, verbose=agent.settings.verbose)))
    talk.place.task_id, talk.place.context_id = agent.settings.task_id, agent.settings.context_id
    while request is not None or (request := talk.asked_for()) is not None:
        try:
            await talk.turn(request)
        except CallError as error:
            if not goes_on:
                raise
            talk.refused = request
            talk.view.note(f"[{error.name or type(error).__name__}] {error.message}")
        request = None
        if not goes_on and talk.outcome.state not in INTERRUPTED:
            break
    talk.part()


@dataclass(slots=True)
class Conversation:
    """Knows where the next turn belongs."""

    agent: ConnectedAgent
    view: LiveView
    place: pb.Message = field(default_factory=pb.Message)
    """Has the ids of the next message."""
    outcome: SendOutcome = field(default_factory=SendOutcome)
    refused: pb.SendMessageRequest | None = None
    """The last one, if it failed."""

    def asked_for(self) -> pb.SendMessageRequest | None:
        """Return what the person wants to send; without a message, to go on following; None at the end."""
        prompts = {INPUT: "reply> ", AUTH: "authorized? Enter, or a reply> "}
        prompt = self.view.styled(prompts.get(self.outcome.state, "you> "), "bold")
        while (text := asked(prompt)) is not None:
            if text:
                return self._request(text)
            if self.outcome.state == AUTH:
                return pb.SendMessageRequest()
        return None

    def _request(self, text: str) -> pb.SendMessageRequest:
        if self.refused is not None and self.refused.message.parts[0].text == text:
            return self.refused  # with its messageId: the agent may have had it
        request = request_of(self.agent.settings, message_of([text], (), self.agent.settings))
        request.message.task_id, request.message.context_id = self.place.task_id, self.place.context_id
        return request

    async def turn(self, request: pb.SendMessageRequest) -> None:
        """Show one turn, and remember where the next one belongs."""
        before, self.refused, self.outcome = self.outcome, None, SendOutcome()
        if request.HasField("message"):
            events = send(self.agent, request)
        else:
            events = followed(self.agent, self.agent.remote.subscribe(before.task_id), before.task_id)
        reading = asyncio.ensure_future(_show(self.view, events, self.outcome, self.place))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, reading.cancel)
        try:
            await reading
        except asyncio.CancelledError:
            if not reading.cancelled() or asyncio.current_task().cancelling():  # type: ignore[union-attr] # there is one
                raise
            self.view.end()
            await self._offer_to_cancel()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self.view.end()
        self.place.task_id = self.outcome.task_id if self.outcome.state in INTERRUPTED else ""

    async def _offer_to_cancel(self) -> None:
        task_id, state = self.outcome.task_id, self.outcome.state
        if not task_id:
            raise KeyboardInterrupt
        answer = asked(self.view.styled("Cancel the task? [y/N] ", "bold"))
        if answer is None or answer.lower() not in {"y", "yes"}:
            tell(f"The task goes on. Resume: {resume(self.agent.program, task_id, '', state)}")
            raise KeyboardInterrupt
        task = await self.agent.remote.cancel_task(task_id)
        self.outcome.state = task.status.state
        self.view.event(pb.StreamResponse(task=task))

    def part(self) -> None:
        """Leave the command that goes on."""
        context = self.place.context_id
        if context:
            tell(f"Context: {context}")
            tell(f"Resume: {resume(self.agent.program, self.outcome.task_id, context, self.outcome.state)}")


async def _show(
    view: LiveView, events: AsyncIterator[pb.StreamResponse], outcome: SendOutcome, place: pb.Message
) -> None:
    async for event in events:
        outcome.note(event)
        place.context_id = _context_of(event) or place.context_id
        view.event(event)


def _context_of(event: pb.StreamResponse) -> str:
    kind = event.WhichOneof("payload")
    return getattr(event, kind).context_id if kind else ""


def asked(prompt: str) -> str | None:
    """Read a line; None if the person has had enough. The loop stands still meanwhile, and nothing else runs on it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt).strip()
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return None
    finally:
        signal.signal(signal.SIGINT, before)
