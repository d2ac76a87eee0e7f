"""Makes the parts of a message from the flags (spec: CLI-18, CLI-19, CLI-20)."""

from __future__ import annotations

import json
import mimetypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.command import PartFlag
from a2a_server.cli.client.failures import usage
from a2a_server.cli.client.settings import ClientSettings
from a2a_server.protocol.names import BINARY, JSON, TEXT

_MOST_BYTES: Final = 64 * 2**20


def message_of(words: Sequence[str], flags: Sequence[PartFlag], told: ClientSettings) -> pb.Message:
    """Make the message to send. Ids travel as they were given."""
    parts = [pb.Part(text=" ".join(words), media_type=TEXT)] if words else []
    if sum(flag == PartFlag("data", "-", flag.media_type) for flag in flags) > 1:
        raise usage("--data - can be given once: standard input has one end")
    parts += [_part(flag) for flag in flags]
    if not parts:
        raise usage("there is nothing to send", 'Say it: a2ad send "<text>", or use --text, --file or --data.')
    return pb.Message(
        message_id=str(uuid4()),
        role=pb.ROLE_USER,
        parts=parts,
        task_id=told.task_id,
        context_id=told.context_id,
    )


def _part(flag: PartFlag) -> pb.Part:
    match flag.kind:
        case "text":
            return pb.Part(text=flag.value, media_type=flag.media_type or TEXT)
        case "data":
            value = ParseDict(_json(flag.value), pb.Part().data)
            return pb.Part(data=value, media_type=flag.media_type or JSON)
    return _file(flag.value, flag.media_type)


def _file(reference: str, media_type: str) -> pb.Part:
    parts = urlsplit(reference)
    if "://" in reference and parts.scheme != "file":
        name = unquote(parts.path.rpartition("/")[2])
        return pb.Part(url=reference, filename=name, media_type=media_type or _guessed(name))
    path = Path(unquote(parts.path) if "://" in reference else reference)
    raw = _read(path, "--file")
    return pb.Part(raw=raw, filename=path.name, media_type=media_type or _guessed(path.name))


def _guessed(name: str) -> str:
    return mimetypes.guess_type(name, strict=False)[0] or BINARY


def _json(path: str) -> Any:  # noqa: ANN401 - the JSON border
    text = _bounded(sys.stdin.buffer, "--data -") if path == "-" else _read(Path(path), "--data")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise usage(f"--data {path}: this is not JSON: {error}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _read(path: Path, flag: str) -> bytes:
    try:
        with path.open("rb") as file:
            return _bounded(file, f"{flag} {path}")
    except OSError as error:
        raise usage(f"{flag} {path}: {error.strerror or error}") from None


def _bounded(file: IO[bytes], what: str) -> bytes:
    found = file.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise usage(f"{what}: more than {_MOST_BYTES // 2**20} MiB", "Send large files by URL: --file https://…")
    return found
