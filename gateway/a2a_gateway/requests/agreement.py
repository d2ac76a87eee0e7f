"""The two halves of a request, one said by the URL and one by the body, made one (spec: REST-04, TENA-03, CONF-50)."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_gateway.routing.parameters import is_map, is_well_known
from a2a_server.protocol.codec.faults import key_path, shown
from a2a_server.protocol.errors import Violation


def merge(body: Message, url: Message, prefix: str = "") -> Iterator[Violation]:
    """Add to the body what only the URL says, and yield a violation for all that they say differently.

    Nobody overrides anybody: a proxy that authorises by path would otherwise let through what the body says instead.
    A field at its default counts as not said, unless the proto tracks its presence.
    """
    for field, value in url.ListFields():
        path = prefix + field.json_name
        if (rival := _rival(body, field)) is not None:
            yield Violation(path, f'cannot be in the URL while the body has "{rival}": only one may be given')
        elif is_map(field):
            yield from _merge_map(getattr(body, field.name), value, path)
        elif not _is_said(body, field):
            _set(body, field, value)
        elif field.message_type is not None and not field.is_repeated and not is_well_known(field.message_type):
            yield from merge(getattr(body, field.name), value, f"{path}.")
        elif (said := getattr(body, field.name)) != value:
            yield Violation(path, _contradiction(value, said))


def _rival(body: Message, field: FieldDescriptor) -> str | None:
    """Return the JSON name of the other member of the field's oneof that the body has chosen."""
    oneof = field.containing_oneof
    chosen = body.WhichOneof(oneof.name) if oneof is not None else None
    return None if chosen is None or chosen == field.name else body.DESCRIPTOR.fields_by_name[chosen].json_name


def _is_said(body: Message, field: FieldDescriptor) -> bool:
    return body.HasField(field.name) if field.has_presence else bool(getattr(body, field.name))


def _set(body: Message, field: FieldDescriptor, value: Any) -> None:  # noqa: ANN401 - a field's value
    if field.is_repeated:
        getattr(body, field.name).extend(value)
    elif field.message_type is not None:
        getattr(body, field.name).CopyFrom(value)
    else:
        setattr(body, field.name, value)


def _merge_map(said: MutableMapping[Any, Any], added: MutableMapping[Any, Any], path: str) -> Iterator[Violation]:
    for key, value in added.items():
        if key not in said:
            said[key] = value
        elif said[key] != value:
            yield Violation(path + key_path(key), _contradiction(value, said[key]))


def _contradiction(url: object, body: object) -> str:
    return f"is {_shown(url)} in the URL and {_shown(body)} in the body; they must be the same"


def _shown(value: object) -> str:
    return shown(value) if isinstance(value, str | int | float) else "another value"
