"""The parts that all spellings share, and the spellings of states and roles (spec: CONF-26, LOLD-04).

Tables name types and fields in full: `lf.a2a.v1` is 1.0, `a2a.v1` is 0.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.codec.dialect import Spellings, is_required
from a2a_server.protocol.codec.scalars import EnumNames, EnumNumbers

Foreign = Mapping[str, Mapping[str, str]]
"""Members that are refused, by type, with the text of the error."""


def is_required_by_1_0(field: FieldDescriptor) -> bool:
    """Whether 1.0 requires this field, or its counterpart in 1.0. The proto of 0.3 hardly marks required fields."""
    kind = pb.DESCRIPTOR.message_types_by_name.get(field.containing_type.name) if field.containing_type else None
    same = kind.fields_by_name.get(field.name) if kind else None
    return same is not None and is_required(same)


def snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def texts(told: str, **names: str) -> dict[str, str]:
    """Return the error text for each name, in camelCase and snake_case."""
    said = {name: told.format(right) for name, right in names.items()}
    return said | {snake(name): text for name, text in said.items()}


# -- states and roles

STATE: Final = pb.TaskState.DESCRIPTOR.full_name
ROLE: Final = pb.Role.DESCRIPTOR.full_name
OLD_STATE: Final = v03.TaskState.DESCRIPTOR.full_name
OLD_ROLE: Final = v03.Role.DESCRIPTOR.full_name

_PREFIX: Final = "TASK_STATE_"
_OTHER_WORDS: Final = {"CANCELLED": 5, "UNKNOWN": 0, "STARTED": 1}


class _Written(dict[int, str]):
    """EnumNames by number; a peer that knows more may send a number without one, which 0.3 calls unknown."""

    def __missing__(self, number: int) -> str:
        return self[0]


def _words() -> Iterator[tuple[str, int]]:
    yield from ((name.removeprefix(_PREFIX), number) for name, number in pb.TaskState.items())
    yield from _OTHER_WORDS.items()


def _spelt(word: str) -> Iterator[str]:
    for spelt in (word, word.replace("_", "-"), _PREFIX + word):
        yield from (spelt, spelt.lower())


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"


_ALL_STATES: Final[dict[object, int]] = {spelt: number for word, number in _words() for spelt in _spelt(word)}

_NUMBERS: Final = EnumNumbers(pb.TaskState.DESCRIPTOR)
_NUMBERS.update(_ALL_STATES)
V1_STATES: Final = Spellings(
    EnumNames(pb.TaskState.DESCRIPTOR).__getitem__, _NUMBERS, _one_of([*pb.TaskState.keys()][1:])
)
"""`TASK_STATE_CANCELED`, with one L; ProtoJSON reads numbers, too, and writes those that have no name."""

_KEBAB: Final = _Written(
    {
        number: "unknown" if not number else name.removeprefix(_PREFIX).replace("_", "-").lower()
        for name, number in pb.TaskState.items()
    }
)
KEBAB_STATES: Final = Spellings(_KEBAB.__getitem__, _ALL_STATES, _one_of([*[*_KEBAB.values()][1:], "unknown"]))
"""`input-required`; the number 0 is `unknown`."""

_DRAFT: Final = _Written({**_KEBAB, 0: "unspecified", pb.TASK_STATE_CANCELED: "cancelled"})
DRAFT_STATES: Final = Spellings(_DRAFT.__getitem__, _ALL_STATES, _one_of([*[*_DRAFT.values()][1:], "unspecified"]))
"""`cancelled`, with two Ls; the number 0 is `unspecified`."""

_PROTO: Final = _Written({number: name for name, number in v03.TaskState.items()})
PROTO_STATES: Final = Spellings(_PROTO.__getitem__, _NUMBERS, _one_of([*_PROTO.values()][1:]))
"""`TASK_STATE_CANCELLED`, with two Ls."""

_PLAIN_ROLES: Final = _Written({0: "unspecified", pb.ROLE_USER: "user", pb.ROLE_AGENT: "agent"})
PLAIN_ROLES: Final = Spellings(
    _PLAIN_ROLES.__getitem__, {name: number for number, name in _PLAIN_ROLES.items()}, "user or agent"
)
DRAFT_ROLES: Final = PLAIN_ROLES._replace(read={**PLAIN_ROLES.read, **dict(pb.Role.items())})
"""The same words, and those of the proto for whoever writes them."""

_PROTO_ROLES: Final = _Written({number: name for name, number in v03.Role.items()})
PROTO_ROLES: Final = Spellings(_PROTO_ROLES.__getitem__, EnumNumbers(pb.Role.DESCRIPTOR), "ROLE_USER or ROLE_AGENT")
