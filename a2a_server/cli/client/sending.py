"""Sends one message, and prints what comes of it (spec: CLI-17, CLI-22, CLI-33 to CLI-35)."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.json_format import ParseDict, ParseError

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.command import PartFlag
from a2a_server.cli.client.connected_agent import ConnectedAgent, on_terminal, run
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.parts import message_of
from a2a_server.cli.client.settings import ClientSettings
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.cli.client.waiting import final_task, send
from a2a_server.client import AgentError
from a2a_server.protocol.errors import Reason


def send_message(told: GivenSettings, words: Sequence[str], parts: Sequence[PartFlag]) -> None:
    request = request_of(told.values, message_of(words, parts, told.values))
    if told.values.interactive and told.values.output == "text" and on_terminal():
        from a2a_server.cli.client.conversation import converse  # noqa: PLC0415 - only here

        run(told, lambda agent: converse(agent, request, goes_on=False))
        return
    run(told, lambda agent: _send(agent, request))


def request_of(settings: ClientSettings, message: pb.Message) -> pb.SendMessageRequest:
    request = pb.SendMessageRequest(message=message)
    try:
        ParseDict(dict(settings.metadata or {}), request.metadata)
    except ParseError as error:
        raise usage(f"--metadata: {error}") from None
    return request


async def _send(agent: ConnectedAgent, request: pb.SendMessageRequest) -> None:
    if agent.settings.async_:
        request.configuration.return_immediately = True
        answer = await agent.remote.send(request)
        agent.printer.result(answer)
        return
    last = pb.StreamResponse()
    async for event in send(agent, request):
        last = event
        if agent.settings.stream:
            agent.printer.event(event)
    if last.HasField("message"):
        if not agent.settings.stream:
            agent.printer.result(pb.SendMessageResponse(message=last.message))
        return
    if not last.WhichOneof("payload"):
        text = "The agent's answer is neither a task nor a message."
        raise AgentError(text, reason=Reason.INVALID_AGENT_RESPONSE)
    state = last.task.status.state if last.HasField("task") else last.status_update.status.state
    if not agent.settings.stream:
        task = await final_task(agent, last)
        agent.printer.result(pb.SendMessageResponse(task=task))
        state = task.status.state
    agent.ended(state)
