"""Messages of the 0.3 proto, which has no references to other tasks (spec: LMAP-02)."""

from __future__ import annotations

from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function
from a2a_server.protocol.codec.faults import key_path, note
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.dialects import kept
from a2a_server.protocol.dialects.kept import Json
from a2a_server.protocol.names import COMPAT

_KIND: Final = descriptor_of(pb.Message)


def _writer(writers: Compiler) -> Function:
    plain = writers.plain(_KIND)

    def write(message: pb.Message) -> Json:
        written: Json = plain(message)
        if task_ids := message.reference_task_ids[:]:
            written.setdefault("metadata", {})[COMPAT] = kept.references(task_ids)
        return written

    return write


def _reader(readers: Compiler) -> Function:
    plain = readers.plain(_KIND)

    def read(value: object, message: pb.Message) -> None:
        if type(value) is not dict or not (task_ids := kept.references_of(value)):
            plain(value, message)
            return
        plain(kept.without_references(value), message)
        try:
            message.reference_task_ids.extend(task_ids)
        except UnicodeEncodeError as error:
            raise note(None, f".metadata{key_path(COMPAT)}", "ids of tasks", task_ids, error) from None

    return read


FORM: Final[Form] = Form(_writer, _reader)
