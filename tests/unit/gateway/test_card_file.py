"""A card from a file, for upstreams that do not tell theirs (spec: DOOR-01)."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from structlog.testing import capture_logs

from a2a_gateway.cards.card_file import CardFileError, WithCard, read_card
from a2a_gateway.upstream import Answer, CallContext, UpstreamAnswer, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from tests.unit.gateway.upstreams import CARD, PLAIN, rpc

CARD_FILE: dict[str, Any] = {
    "name": "Filed",
    "description": "From a file.",
    "version": "7",
    "supported_interfaces": [{"url": "a:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "default_output_modes": ["text/plain"],
    "skills": [],
}


class Other:
    """The upstream itself."""

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        return Answer(pb.Task(id=method.name))

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        raise LookupError(method.name)

    async def ready(self) -> bool:
        return True


async def test_the_card_is_the_files_and_everything_else_the_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(CARD_FILE))
    upstream = WithCard(Other(), read_card(str(path)))
    card = (await upstream.unary(CARD, pb.GetTaskRequest(), PLAIN)).message
    assert isinstance(card, pb.AgentCard)
    assert (card.name, card.supported_interfaces[0].url) == ("Filed", "a:1")
    assert (await upstream.unary(rpc("GetTask"), pb.GetTaskRequest(), PLAIN)).message == pb.Task(id="GetTask")
    with pytest.raises(LookupError, match="SubscribeToTask"):
        await upstream.stream(rpc("SubscribeToTask"), pb.SubscribeToTaskRequest(), PLAIN)
    assert await upstream.ready()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '{"nope": 1, "name": null}',
            r"lacks name, description, .*capabilities, .*skills; cards have no member nope$",
        ),
        (
            json.dumps({**CARD_FILE, "skills": [{"id": "a", "name": "A", "description": "B"}]}),
            r"lacks skills\[0\].tags$",
        ),
        (json.dumps({**CARD_FILE, "provider": {"url": "https://a.example"}}), r"lacks provider\.organization$"),
        (
            json.dumps({**CARD_FILE, "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header"}}}}),
            r"lacks securitySchemes\[key\]\.apiKeySecurityScheme\.name$",
        ),
        ("{", "is no agent card: "),
        ('{"name": 7}', r"is no agent card: name: "),
        ("[]", "is no agent card: "),
        (None, "cannot read '.*': No such file"),
    ],
)
def test_a_file_that_is_no_card_is_named_with_its_fault(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "card.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CardFileError, match=f"gateway.card: .*{why}"):
        read_card(str(path))


def test_members_of_another_version_are_no_fault_and_strange_ones_are_named(tmp_path: Path) -> None:
    """A card as servers tell it has the members of 0.3, too; a later version may have some that nobody knows yet."""
    path = tmp_path / "card.json"
    older = {"url": "http://a.example", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0", "security": []}
    path.write_text(json.dumps(CARD_FILE | older))
    with capture_logs() as logs:
        assert read_card(str(path)).name == "Filed"
        assert not logs
        path.write_text(json.dumps(CARD_FILE | {"newMember": 1, "iconURL": "https://a.example/icon"}))
        assert read_card(str(path)).name == "Filed"
    (entry,) = logs
    assert (entry["event"], entry["members"]) == ("gateway.card_members_unknown", ["iconURL", "newMember"])
