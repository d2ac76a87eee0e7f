"""The names of rights, and of groups that stand for several rights (spec: AUTZ-01, AUTZ-05, GATE-07).

Credentials list rights as OAuth does, as `scopes`. An RPC's right is `a2a:` and its name; a skill's are named by its
author.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NoReturn

from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from a2a_proto import a2a_pb2
from a2a_server.protocol.errors import A2AError, Reason

OWN: Final = "a2a:"
"""Begins the rights that the server names."""
ALL: Final = "a2a:*"
"""All operations but the extended card, and all skills."""
READ: Final = "a2a:read"
"""All operations but the extended card that are called with GET over HTTP."""
EXTENDED_CARD: Final = "a2a:GetExtendedAgentCard"
"""It is in no group, because that card tells more than others may read (XCARD-03)."""

_NAME: Final = re.compile(r"[!#-\[\]-~]{1,64}").fullmatch  # scope-token of RFC 6749, and bounded
_A_NAME: Final = 'must be 1 to 64 printable ASCII characters without spaces, " and \\'


def right_to(rpc: str) -> str:
    return OWN + rpc


A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
_OURS: Final = (ALL, READ, *(right_to(method.name) for method in A2A.methods))


def name_fault(name: str) -> str:
    """Say what makes a name unusable as a right; empty when nothing does."""
    if not _NAME(name):
        return _A_NAME
    return f"is none of the server's own scopes: {', '.join(_OURS)}" if is_reserved(name) and name not in _OURS else ""


def is_reserved(name: str) -> bool:
    return name.startswith(OWN)


def readings(services: Iterable[ServiceDescriptor]) -> frozenset[str]:
    """The rights to all RPCs whose annotation says GET."""
    return frozenset(right_to(method.name) for service in services for method in service.methods if _is_get(method))


def _is_get(method: MethodDescriptor) -> bool:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    return any(binding.get for binding in (rule, *rule.additional_bindings))


def expanded(names: Collection[str], groups: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The rights that these names stand for. One that is no group stands for itself: it may be a skill's."""
    return frozenset().union(*(groups.get(name, (name,)) for name in names))


def lacking(scopes: frozenset[str] | None, needed: Iterable[str]) -> list[str]:
    """What is needed and not held; None holds everything."""
    if scopes is None or ALL in scopes:
        return []
    return sorted(name for name in needed if name not in scopes)


def refuse_rights(names: Iterable[str], subject: str) -> NoReturn:
    """Refuse a caller who lacks these rights. That says nothing about any resource (AUTZ-05)."""
    scope = " ".join(names)
    challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
    text = f"{subject} needs the scope {scope}, which these credentials do not have."
    raise A2AError(Reason.PERMISSION_DENIED, text, metadata={"scope": scope, "challenge": challenge})
