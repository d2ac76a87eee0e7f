"""What a send asks for: `blocking` is the opposite of 1.0's member, and absent means what is chosen (spec: CONF-08)."""

from __future__ import annotations

from operator import not_
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec.compiler import Compiler, Function, has
from a2a_server.protocol.codec.scalars import boolean
from a2a_server.protocol.codec.schema import Form, descriptor_of
from a2a_server.protocol.dialects.kept import Json

_REQUEST: Final = descriptor_of(pb.SendMessageRequest)
_CONFIGURATION: Final = descriptor_of(pb.SendMessageConfiguration)


def _opposite(value: object) -> bool:
    return not boolean(value)


BLOCKING: Final[Form] = Form(lambda _: not_, lambda _: _opposite)


def _patient_request(readers: Compiler) -> Function:
    plain = readers.plain(_REQUEST)

    def read(value: object, request: pb.SendMessageRequest) -> None:
        plain(value, request)
        if has(request, "configuration"):
            _drop_if_empty(request)

    return read


def _impatient_request(readers: Compiler) -> Function:
    plain = readers.plain(_REQUEST)

    def read(value: object, request: pb.SendMessageRequest) -> None:
        plain(value, request)
        if has(request, "configuration"):
            _drop_if_empty(request)
        else:
            request.configuration.return_immediately = True

    return read


def _drop_if_empty(request: pb.SendMessageRequest) -> None:
    """Clients of 0.3 say `blocking` always; in 1.0 that says nothing, and would be looked at many times."""
    if not request.configuration.ByteSize():
        request.ClearField("configuration")


def _impatient_configuration(readers: Compiler) -> Function:
    plain = readers.plain(_CONFIGURATION)

    def read(value: object, configuration: pb.SendMessageConfiguration) -> None:
        plain(value, configuration)
        if type(value) is dict and value.get("blocking") is None:
            configuration.return_immediately = True

    return read


def _write_patient_request(writers: Compiler) -> Function:
    plain = writers.plain(_REQUEST)

    def write(request: pb.SendMessageRequest) -> Json:
        written: Json = plain(request)
        return written if "configuration" in written else {**written, "configuration": {"blocking": True}}

    return write


WAITING: Final = {"SendMessageRequest": Form(None, _patient_request)}
"""For a dialect in which a send waits unless it says otherwise."""

AS_PROTO: Final = {"SendMessageConfiguration": Form(None, _impatient_configuration)}
"""For ProtoJSON, which leaves out what is false: a configuration without `blocking` says that it is."""

WITHOUT_WAITING: Final = {
    "SendMessageRequest": Form(_write_patient_request, _impatient_request),
    **AS_PROTO,
}
"""For a dialect in which a send that does not say `blocking` does not wait."""
