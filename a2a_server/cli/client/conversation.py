"""A conversation on a terminal: turns, questions answered inline, Ctrl-C to cancel (spec: CLI-02, CLI-72, CLI-74)."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.connected_agent import ConnectedAgent
from a2a_server.cli.client.live_view import LiveView
from a2a_server.cli.client.output import TextPrinter, resume, tell
from a2a_server.cli.client.parts import message_of
from a2a_server.cli.client.waiting import SendOutcome, followed, send
from a2a_server.domain.lifecycle import AUTH, INPUT, INTERRUPTED


async def converse(agent: ConnectedAgent, request: pb.SendMessageRequest | None, *, goes_on: bool) -> None:
    """Run turns until the person has had enough; without `goes_on`, until the first outcome."""
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - gives `input` a history and editing
    agent.is_watched = True
    view = LiveView(TextPrinter(agent.program, verbose=agent.settings.verbose))
    outcome = SendOutcome()
    place = pb.Message(task_id=agent.settings.task_id, context_id=agent.settings.context_id)
    while True:
        if request is None:
            text = asked(_prompt(view, outcome))
            if text is None:
                break
            if not text and outcome.state == AUTH:
                events = followed(agent, agent.remote.subscribe(outcome.task_id), outcome.task_id)
                outcome = await _turn(agent, view, events, place)
                continue
            if not text:
                continue
            request = pb.SendMessageRequest(message=message_of([text], (), agent.settings))
            request.message.task_id, request.message.context_id = place.task_id, place.context_id
        outcome = await _turn(agent, view, send(agent, request), place)
        request = None
        if not goes_on and outcome.state not in INTERRUPTED:
            break
    _part(agent, outcome, place)


def _prompt(view: LiveView, outcome: SendOutcome) -> str:
    if outcome.state == INPUT:
        return view.styled("reply> ", "bold")
    if outcome.state == AUTH:
        return view.styled("authorized? Enter, or a reply> ", "bold")
    return view.styled("you> ", "bold")


def _part(agent: ConnectedAgent, outcome: SendOutcome, place: pb.Message) -> None:
    """Leave the command that goes on."""
    if place.context_id:
        tell(f"Context: {place.context_id}")
        tell(f"Resume: {resume(agent.program, outcome.task_id, place.context_id, outcome.state)}")


async def _turn(
    agent: ConnectedAgent, view: LiveView, events: AsyncIterator[pb.StreamResponse], place: pb.Message
) -> SendOutcome:
    """Show one turn, and remember where the next one belongs."""
    outcome = SendOutcome()
    reading = asyncio.ensure_future(_show(view, events, outcome, place))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, reading.cancel)
    try:
        await reading
    except asyncio.CancelledError:
        if not reading.cancelled() or asyncio.current_task().cancelling():  # type: ignore[union-attr] # there is one
            raise
        view.end()
        await _offer_to_cancel(agent, view, outcome)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        view.end()
    place.task_id = outcome.task_id if outcome.state in INTERRUPTED else ""
    return outcome


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


async def _offer_to_cancel(agent: ConnectedAgent, view: LiveView, outcome: SendOutcome) -> None:
    if not outcome.task_id:
        raise KeyboardInterrupt
    answer = asked(view.styled("Cancel the task? [y/N] ", "bold"))
    if answer is None or answer.lower() not in {"y", "yes"}:
        tell(f"The task goes on. Resume: {resume(agent.program, outcome.task_id, '', outcome.state)}")
        raise KeyboardInterrupt
    task = await agent.remote.cancel_task(outcome.task_id)
    outcome.state = task.status.state
    view.event(pb.StreamResponse(task=task))


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
