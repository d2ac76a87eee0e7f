"""Requests of SendMessage and SendStreamingMessage (spec: LMAP, LGRP-04, CONF-08, CONF-22)."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import messages, push
from a2a_server.protocol.v0_3.faults import Faults, settle
from a2a_server.protocol.v0_3.options import DEFAULT, Options


def upgrade(legacy: v03.SendMessageRequest, options: Options = DEFAULT) -> pb.SendMessageRequest:
    request, faults = pb.SendMessageRequest(), Faults()
    if legacy.HasField("request"):
        messages.upgrade_into(request.message, legacy.request, "request.", faults)
    configured = legacy.HasField("configuration")
    if configured:
        _upgrade_configuration(request, legacy.configuration, options, faults)
    if not (legacy.configuration.blocking if configured else options.wait_unasked):
        request.configuration.return_immediately = True
    if legacy.HasField("metadata"):
        request.metadata.CopyFrom(legacy.metadata)
    settle(faults)
    return request


def _upgrade_configuration(
    request: pb.SendMessageRequest, legacy: v03.SendMessageConfiguration, options: Options, faults: Faults
) -> None:
    """Touch the new configuration only if there is something to say: an empty one says the same as none."""
    if legacy.accepted_output_modes:
        request.configuration.accepted_output_modes.extend(legacy.accepted_output_modes)
    if legacy.HasField("push_notification"):
        config = request.configuration.task_push_notification_config
        push.upgrade_into(config, legacy.push_notification, options, "configuration.push_notification.", faults)
        push.check_new(legacy.push_notification, "configuration.push_notification.", faults)
    if legacy.history_length:  # 0 = all of it, which in 1.0 is said by saying nothing
        request.configuration.history_length = legacy.history_length


def schemes_of(legacy: v03.SendMessageRequest) -> Sequence[str]:
    return push.schemes_of(legacy.configuration.push_notification)


def downgrade(request: pb.SendMessageRequest, options: Options = DEFAULT) -> v03.SendMessageRequest:
    legacy = v03.SendMessageRequest()
    if request.HasField("message"):
        messages.downgrade_into(legacy.request, request.message, options)
    if request.HasField("configuration"):
        _downgrade_configuration(legacy, request.configuration)
    if not request.configuration.return_immediately:
        legacy.configuration.blocking = True
    if request.HasField("metadata"):
        legacy.metadata.CopyFrom(request.metadata)
    return legacy


def _downgrade_configuration(legacy: v03.SendMessageRequest, configuration: pb.SendMessageConfiguration) -> None:
    if configuration.accepted_output_modes:
        legacy.configuration.accepted_output_modes.extend(configuration.accepted_output_modes)
    if configuration.HasField("task_push_notification_config"):
        push.downgrade_into(legacy.configuration.push_notification, configuration.task_push_notification_config)
    if configuration.history_length:
        legacy.configuration.history_length = configuration.history_length
