"""Tasks and their statuses (spec: LMAP-01)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import artifacts, enums, messages
from a2a_server.protocol.v0_3.faults import Faults, settle
from a2a_server.protocol.v0_3.options import DEFAULT, Options


def upgrade(legacy: v03.Task) -> pb.Task:
    task, faults = pb.Task(), Faults()
    upgrade_into(task, legacy, "", faults)
    settle(faults)
    return task


def upgrade_into(task: pb.Task, legacy: v03.Task, path: str, faults: Faults) -> None:
    """`task` is empty; `path` is "" or ends in a dot."""
    task.id = legacy.id
    task.context_id = legacy.context_id
    if legacy.HasField("status"):
        upgrade_status_into(task.status, legacy.status, f"{path}status.", faults)
    new_artifacts, new_history = task.artifacts, task.history
    for index, artifact in enumerate(legacy.artifacts[:]):
        artifacts.upgrade_into(new_artifacts.add(), artifact, f"{path}artifacts[{index}].", faults)
    for index, message in enumerate(legacy.history[:]):
        messages.upgrade_into(new_history.add(), message, f"{path}history[{index}].", faults)
    if legacy.HasField("metadata"):
        task.metadata.CopyFrom(legacy.metadata)


def upgrade_status_into(status: pb.TaskStatus, legacy: v03.TaskStatus, path: str, faults: Faults) -> None:
    status.state = enums.upgrade_state(legacy.state, f"{path}state", faults)
    if legacy.HasField("update"):
        messages.upgrade_into(status.message, legacy.update, f"{path}update.", faults)
    if legacy.HasField("timestamp"):
        status.timestamp.CopyFrom(legacy.timestamp)


def downgrade(task: pb.Task, options: Options = DEFAULT) -> v03.Task:
    legacy = v03.Task()
    downgrade_into(legacy, task, options)
    return legacy


def downgrade_into(legacy: v03.Task, task: pb.Task, options: Options) -> None:
    """`legacy` is empty."""
    legacy.id = task.id
    legacy.context_id = task.context_id
    if task.HasField("status"):
        downgrade_status_into(legacy.status, task.status, options)
    old_artifacts, old_history = legacy.artifacts, legacy.history
    for artifact in task.artifacts[:]:
        artifacts.downgrade_into(old_artifacts.add(), artifact, options)
    for message in task.history[:]:
        messages.downgrade_into(old_history.add(), message, options)
    if task.HasField("metadata"):
        legacy.metadata.CopyFrom(task.metadata)


def downgrade_status_into(legacy: v03.TaskStatus, status: pb.TaskStatus, options: Options) -> None:
    legacy.state = enums.downgrade_state(status.state)
    if status.HasField("message"):
        messages.downgrade_into(legacy.update, status.message, options)
    if status.HasField("timestamp"):
        legacy.timestamp.CopyFrom(status.timestamp)
