"""How long to wait before a call that changes nothing is made again (spec: IDEM-01)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor

FIRST_PAUSE = 0.05
"""How many seconds to wait before the second attempt; before each further one twice as long."""


def pauses(attempts: int) -> Iterator[float]:
    """What to wait after each attempt; 0 after the last. Callers that failed together do not come back together."""
    for number in range(attempts - 1):
        yield FIRST_PAUSE * 2**number * random.uniform(0.8, 1.2)  # noqa: S311 - only to spread
    yield 0.0


@lru_cache(maxsize=256)
def is_read(method: MethodDescriptor) -> bool:
    """Whether the annotation says GET: such a call changes nothing, and may be made again (IDEM-01)."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    return bool(rule.WhichOneof("pattern") == "get")
