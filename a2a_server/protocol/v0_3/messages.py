"""Messages: `content` becomes `parts`; references to other tasks are kept in metadata (spec: LMAP)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import enums, kept, parts
from a2a_server.protocol.v0_3.faults import Faults, settle
from a2a_server.protocol.v0_3.options import DEFAULT, Options


def upgrade(legacy: v03.Message) -> pb.Message:
    message, faults = pb.Message(), Faults()
    upgrade_into(message, legacy, "", faults)
    settle(faults)
    return message


def upgrade_into(message: pb.Message, legacy: v03.Message, path: str, faults: Faults) -> None:
    """`message` is empty; `path` is "" or ends in a dot."""
    message.message_id = legacy.message_id
    message.context_id = legacy.context_id
    message.task_id = legacy.task_id
    message.role = enums.upgrade_role(legacy.role, f"{path}role", faults)
    new = message.parts
    for index, part in enumerate(legacy.content[:]):  # as a list: protobuf's own way to iterate is slower
        parts.upgrade_into(new.add(), part, f"{path}content[{index}]", faults)
    if legacy.extensions:
        message.extensions.extend(legacy.extensions)
    if legacy.HasField("metadata"):
        message.metadata.CopyFrom(legacy.metadata)
        _restore(message)


def _restore(message: pb.Message) -> None:
    if task_ids := kept.take_references(message.metadata):
        message.reference_task_ids.extend(task_ids)
        if not message.metadata.fields:  # all of it was ours
            message.ClearField("metadata")


def downgrade(message: pb.Message, options: Options = DEFAULT) -> v03.Message:
    legacy = v03.Message()
    downgrade_into(legacy, message, options)
    return legacy


def downgrade_into(legacy: v03.Message, message: pb.Message, options: Options) -> None:
    """`legacy` is empty."""
    legacy.message_id = message.message_id
    legacy.context_id = message.context_id
    legacy.task_id = message.task_id
    legacy.role = enums.downgrade_role(message.role)
    content = legacy.content
    for part in message.parts[:]:
        parts.downgrade_into(content.add(), part, options)
    if message.extensions:
        legacy.extensions.extend(message.extensions)
    if message.HasField("metadata"):
        legacy.metadata.CopyFrom(message.metadata)
    if message.reference_task_ids:
        kept.put_references(legacy.metadata, message.reference_task_ids)
