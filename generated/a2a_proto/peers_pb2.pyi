from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Asked(_message.Message):
    __slots__ = ("follow", "forget", "ping")
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    follow: _containers.RepeatedScalarFieldContainer[str]
    forget: _containers.RepeatedScalarFieldContainer[str]
    ping: int
    def __init__(self, follow: _Optional[_Iterable[str]] = ..., forget: _Optional[_Iterable[str]] = ..., ping: _Optional[int] = ...) -> None: ...

class Told(_message.Message):
    __slots__ = ("server", "logs", "pong")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    server: str
    logs: _containers.RepeatedCompositeFieldContainer[Growth]
    pong: int
    def __init__(self, server: _Optional[str] = ..., logs: _Optional[_Iterable[_Union[Growth, _Mapping]]] = ..., pong: _Optional[int] = ...) -> None: ...

class Growth(_message.Message):
    __slots__ = ("task_id", "number", "entries")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    number: int
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, task_id: _Optional[str] = ..., number: _Optional[int] = ..., entries: _Optional[_Iterable[bytes]] = ...) -> None: ...
