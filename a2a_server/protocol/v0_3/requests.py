"""Requests that name one task (spec: LGRP-02, LGRP-04)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import names
from a2a_server.protocol.v0_3.faults import Faults, settle


def upgrade_get(legacy: v03.GetTaskRequest) -> pb.GetTaskRequest:
    request = pb.GetTaskRequest(id=_task_of(legacy.name))
    if legacy.history_length:  # 0 = all of it, which in 1.0 is said by saying nothing
        request.history_length = legacy.history_length
    return request


def upgrade_cancel(legacy: v03.CancelTaskRequest) -> pb.CancelTaskRequest:
    return pb.CancelTaskRequest(id=_task_of(legacy.name))


def upgrade_subscribe(legacy: v03.TaskSubscriptionRequest) -> pb.SubscribeToTaskRequest:
    return pb.SubscribeToTaskRequest(id=_task_of(legacy.name))


def upgrade_card(_: v03.GetAgentCardRequest) -> pb.GetExtendedAgentCardRequest:
    """0.3 reads the card over RPC to see what only an authenticated caller may."""
    return pb.GetExtendedAgentCardRequest()


def downgrade_get(request: pb.GetTaskRequest) -> v03.GetTaskRequest:
    return v03.GetTaskRequest(name=names.task_name(request.id), history_length=request.history_length)


def downgrade_cancel(request: pb.CancelTaskRequest) -> v03.CancelTaskRequest:
    return v03.CancelTaskRequest(name=names.task_name(request.id))


def downgrade_subscribe(request: pb.SubscribeToTaskRequest) -> v03.TaskSubscriptionRequest:
    return v03.TaskSubscriptionRequest(name=names.task_name(request.id))


def downgrade_card(_: pb.GetExtendedAgentCardRequest) -> v03.GetAgentCardRequest:
    return v03.GetAgentCardRequest()


def _task_of(name: str) -> str:
    faults = Faults()
    task_id = names.task_of(name, "name", faults)
    settle(faults)
    return task_id
