"""Whether a caller may make a call, asked before anything is looked up (spec: AUTZ-01, AUTZ-04).

1. `Permissions` asks what the caller's credentials allow.
2. `AccessCheck` asks the operator's own policy, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.rights import A2A, ALL, EXTENDED_CARD, READ, expanded, readings, right_to
from a2a_server.domain.validation import may_exist
from a2a_server.ports.access import AccessPolicy, AccessQuestion
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.pipeline import Admission

PUBLIC: Final = frozenset({"GetAgentCard"})
"""What anybody may ask, in any version, before knowing how to authenticate."""


class Permissions:
    """Knows what the names in a caller's scopes stand for, and refuses operations that none of them allows.

    What comes behind it sees the caller with all that it was found to have.
    """

    def __init__(
        self, roles: Mapping[str, Collection[str]] | None = None, services: Iterable[ServiceDescriptor] = (A2A,)
    ) -> None:
        read = {READ: readings(services) - {EXTENDED_CARD} | {READ}}
        self._groups = {**read, **{name: expanded(scopes, read) for name, scopes in (roles or {}).items()}}
        self._settled = lru_cache(maxsize=1024)(self._settle)

    def __call__(self, call: Admission) -> None:
        if call.caller.scopes is None:  # everything
            return
        caller = call.caller = self._settled(call.caller)
        if caller.scopes is not None and ALL in caller.scopes:
            return
        if not (caller.extended_card and right_to(call.rpc) == EXTENDED_CARD):
            caller.require((right_to(call.rpc),), call.rpc)

    def _settle(self, caller: Caller) -> Caller:
        scopes = expanded(caller.scopes or (), self._groups)
        return caller._replace(scopes=scopes, extended_card=caller.extended_card or EXTENDED_CARD in scopes)


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """Refuses what the policy does not allow. It comes after the tenant is settled, and before any look-up."""

    policy: AccessPolicy
    skill_of: Callable[[str, pb.SendMessageRequest], str]
    """Which skill of a tenant's agent a message goes to that begins a task."""

    async def __call__(self, call: Admission) -> None:
        if call.rpc in PUBLIC:
            return
        verdict = await self.policy.decide(self._question(call))
        if not verdict.allowed:
            why = f": {verdict.reason}" if verdict.reason else "."
            raise A2AError(Reason.PERMISSION_DENIED, f"The server's policy does not allow this call{why}")

    def _question(self, call: Admission) -> AccessQuestion:
        request, scopes = call.request, call.caller.scopes
        task, tenant = task_of(request), call.scope.tenant
        return AccessQuestion(
            operation=call.rpc,
            skill=self.skill_of(tenant, request) if isinstance(request, pb.SendMessageRequest) and not task else "",
            owner=call.caller.owner,
            tenant=tenant,
            scopes=None if scopes is None else tuple(sorted(scopes)),
            peer=call.credentials.peer,
            task=task,
            version=call.version,
            door=call.credentials.door,
        )


def task_of(request: Message) -> str:
    """The task that a request names, if there can be such a one."""
    said = request.message if isinstance(request, pb.SendMessageRequest) else request
    task = getattr(said, "task_id", "") or getattr(said, "id", "")
    return task if isinstance(task, str) and may_exist(task) else ""
