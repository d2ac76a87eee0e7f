"""Refuses calls that the agent card does not offer (spec: CAPA, SEND-04)."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.media_types import check_content_types
from a2a_server.domain.validation import check_send, is_plain
from a2a_server.domain.webhooks import choose_scheme
from a2a_server.operations.call import Call
from a2a_server.operations.push.configs import INLINE, ConfigIntake
from a2a_server.operations.services import Services
from a2a_server.ports.agent import SKILL_KEY, Plan
from a2a_server.protocol.errors import A2AError, Reason, refuse
from a2a_server.protocol.names import INPUT_REQUEST_URI, TEXT


class Capabilities:
    """What the card declares. Its checks come before a call has any effect."""

    def __init__(self, services: Services, card: pb.AgentCard) -> None:
        self._services = services
        self._declared = card.capabilities
        self._results = any(extension.uri == INPUT_REQUEST_URI for extension in card.capabilities.extensions)
        self._default_modes = tuple(card.default_input_modes)
        self._skill_modes = {skill.id: (*self._default_modes, *skill.input_modes) for skill in card.skills}
        self._alike = all(set(modes) == set(self._default_modes) for modes in self._skill_modes.values())
        self._only = next(iter(self._skill_modes.values())) if len(self._skill_modes) == 1 else self._default_modes

    def require_streaming(self) -> None:
        if not self._declared.streaming:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "This agent does not stream.")

    def require_push(self) -> ConfigIntake:
        if self._services.desk is None:
            text = "This server does not deliver push notifications."
            raise A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, text)
        return self._services.desk

    def require_extended_card(self) -> None:
        if not self._declared.extended_agent_card:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, "This agent has no extended card.")

    def check_send(self, call: Call, request: pb.SendMessageRequest) -> Plan:
        """Refuse whatever can be wrong with a message (GEN-03). Returns the agent's plan for a new task."""
        if not (plain := is_plain(request)):
            check_send(request, tenant=call.scope.tenant)
        agent = self._services.agent_for(call.scope.tenant)
        plan = agent.plan(request, b"")
        if (call.extensions or not plan.sound) and (faults := agent.check(request, call.extensions)):
            refuse(faults)
        if not plain and request.configuration.HasField("task_push_notification_config"):
            desk, config = self.require_push(), request.configuration.task_push_notification_config
            choose_scheme(config, call.schemes, INLINE)
            desk.check(config, INLINE)
        modes = self._modes(request)
        if not plain or TEXT not in modes:
            check_content_types(request, modes, results=self._results)
        return plan

    def _modes(self, request: pb.SendMessageRequest) -> Sequence[str]:
        """The media types that the agent accepts, and those that the addressed skill accepts besides."""
        if self._alike:
            return self._default_modes
        named = request.metadata.fields.get(SKILL_KEY)
        return self._only if named is None else self._skill_modes.get(named.string_value, self._default_modes)
