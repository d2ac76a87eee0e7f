"""A card from a file, for upstreams that do not tell theirs (spec: DOOR-01)."""

from pathlib import Path

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from gateway.card_file import CardFileError, WithCard, read_card
from gateway.upstream import Answer, Context, Stream
from generated import a2a_pb2 as pb
from tests.unit.gateway.upstreams import CARD, PLAIN, rpc


class Other:
    """The upstream itself."""

    async def unary(self, method: MethodDescriptor, request: Message, context: Context) -> Answer:
        return Answer(pb.Task(id=method.name))

    async def stream(self, method: MethodDescriptor, request: Message, context: Context) -> Stream:
        raise LookupError(method.name)

    async def ready(self) -> bool:
        return True


async def test_the_card_is_the_files_and_everything_else_the_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text('{"name": "Filed", "supported_interfaces": [{"url": "a:1", "protocolBinding": "GRPC"}], "new": 1}')
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
