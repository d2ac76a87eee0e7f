"""States and roles: the same numbers in both versions, one spelling apart (spec: LMAP, CONF-26).

Both are open enums: a peer that knows more may send a number without a name. A request with one is refused; in an
answer it becomes 0, which 0.3 calls `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.v0_3.faults import Faults

_STATES: Final[Mapping[int, pb.TaskState]] = MappingProxyType(
    {number: cast("pb.TaskState", number) for number in v03.TaskState.values()}
)
_ROLES: Final[Mapping[int, pb.Role]] = MappingProxyType(
    {number: cast("pb.Role", number) for number in v03.Role.values()}
)
_LEGACY_STATES: Final[Mapping[int, v03.TaskState]] = MappingProxyType(
    {number: cast("v03.TaskState", number) for number in v03.TaskState.values()}
)
_LEGACY_ROLES: Final[Mapping[int, v03.Role]] = MappingProxyType(
    {number: cast("v03.Role", number) for number in v03.Role.values()}
)
_STATE_NAMES: Final = ", ".join(v03.TaskState.keys())
_ROLE_NAMES: Final = ", ".join(v03.Role.keys())


def upgrade_state(number: int, field: str, faults: Faults) -> pb.TaskState:
    state = _STATES.get(number)
    if state is None:
        faults.append(Violation(field, f"unknown value {number}; allowed are {_STATE_NAMES}"))
        return pb.TASK_STATE_UNSPECIFIED
    return state


def upgrade_role(number: int, field: str, faults: Faults) -> pb.Role:
    role = _ROLES.get(number)
    if role is None:
        faults.append(Violation(field, f"unknown value {number}; allowed are {_ROLE_NAMES}"))
        return pb.ROLE_UNSPECIFIED
    return role


def downgrade_state(number: int) -> v03.TaskState:
    return _LEGACY_STATES.get(number, v03.TASK_STATE_UNSPECIFIED)


def downgrade_role(number: int) -> v03.Role:
    return _LEGACY_ROLES.get(number, v03.ROLE_UNSPECIFIED)
