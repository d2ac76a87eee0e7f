"""Artifacts: the same members under other numbers (spec: LMAP)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import parts
from a2a_server.protocol.v0_3.faults import Faults
from a2a_server.protocol.v0_3.options import Options


def upgrade_into(artifact: pb.Artifact, legacy: v03.Artifact, path: str, faults: Faults) -> None:
    """`artifact` is empty; `path` is "" or ends in a dot."""
    artifact.artifact_id = legacy.artifact_id
    artifact.name = legacy.name
    artifact.description = legacy.description
    new = artifact.parts
    for index, part in enumerate(legacy.parts[:]):
        parts.upgrade_into(new.add(), part, f"{path}parts[{index}]", faults)
    if legacy.HasField("metadata"):
        artifact.metadata.CopyFrom(legacy.metadata)
    if legacy.extensions:
        artifact.extensions.extend(legacy.extensions)


def downgrade_into(legacy: v03.Artifact, artifact: pb.Artifact, options: Options) -> None:
    """`legacy` is empty."""
    legacy.artifact_id = artifact.artifact_id
    legacy.name = artifact.name
    legacy.description = artifact.description
    old = legacy.parts
    for part in artifact.parts[:]:
        parts.downgrade_into(old.add(), part, options)
    if artifact.HasField("metadata"):
        legacy.metadata.CopyFrom(artifact.metadata)
    if artifact.extensions:
        legacy.extensions.extend(artifact.extensions)
