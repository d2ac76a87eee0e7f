"""What a spelling writes, reads and refuses, in short."""

from typing import Any

import orjson
import pytest
from google.protobuf.message import Message

from a2a_server.protocol.codec import Codec, loads
from a2a_server.protocol.dialects import Spelling
from a2a_server.protocol.errors import A2AError, Reason


def written(spelling: Spelling | Codec, message: Message) -> Any:
    codec = spelling.codec if isinstance(spelling, Spelling) else spelling
    return orjson.loads(codec.encode(message))


def read(spelling: Spelling, value: Any, kind: Any) -> Any:
    """As from the wire."""
    return spelling.codec.decode(loads(orjson.dumps(value)), kind)


def faults(spelling: Spelling, value: Any, kind: Any) -> dict[str, str]:
    with pytest.raises(A2AError) as caught:
        spelling.codec.decode(value, kind)
    assert caught.value.reason is Reason.INVALID_PARAMS
    found = {violation.field: violation.description for violation in caught.value.violations}
    assert len(found) == len(caught.value.violations)
    return found
