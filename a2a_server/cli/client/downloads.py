"""Saves artifacts as files: safe names, and nothing replaced unasked (spec: CLI-62; OP-11)."""

from __future__ import annotations

import mimetypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.connected_agent import ConnectedAgent
from a2a_server.cli.client.failures import INTERNAL, UNREACHABLE, CommandFailure, usage
from a2a_server.cli.client.output import indented, tell, write_json
from a2a_server.cli.client.plain_text import one_line

_UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\/]|[\ud800-\udfff\u202a-\u202e\u2066-\u2069]')
_LONGEST: Final = 150
_MOST_BYTES: Final = 2**30


class SavedPart(NamedTuple):
    name: str
    content: bytes
    url: str = ""
    """Where the content is, if it is linked."""


async def save(agent: ConnectedAgent, task: pb.Task, folder: str, *, force: bool, linked: bool) -> None:
    """Write all files, or none if one exists already."""
    place = _folder(folder)
    files = list(saved_parts(task))
    left_out = [file for file in files if file.url and not linked]
    files = [file for file in files if not file.url or linked]
    if not force and (taken := [file.name for file in files if (place / file.name).exists()]):
        text = f"{', '.join(taken)}: exists already in {place}"
        raise CommandFailure(INTERNAL, text, hint="Choose another folder with --dir, or replace it with --force.")
    for file in files:
        content = await _fetched(file.url) if file.url else file.content
        _write(place / file.name, content, force=force)
    for file in left_out:
        tell(f"Warning: {file.url} is linked, and not fetched; --linked fetches it")
    if agent.settings.output == "json":
        write_json(task)
        return
    for file in files:
        sys.stdout.write(f"File: {one_line(str(place / file.name))}\n")


def _folder(path: str) -> Path:
    place = Path(path)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise usage(f"--dir {path}: {error.strerror or error}") from None
    return place


def saved_parts(task: pb.Task) -> Iterator[SavedPart]:
    """Give every part a name of its own."""
    taken: set[str] = set()
    for artifact in task.artifacts:
        stem = _safe(artifact.name) or _safe(artifact.artifact_id) or "artifact"
        for part in artifact.parts:
            content, url, suffix = _content(part)
            name = _safe(part.filename) or f"{stem}{suffix}"
            path, number = Path(name), 1
            while name.lower() in taken:
                number += 1
                name = f"{path.stem}-{number}{path.suffix}"
            taken.add(name.lower())
            yield SavedPart(name, content, url)


def _content(part: pb.Part) -> tuple[bytes, str, str]:
    suffix = mimetypes.guess_extension(part.media_type.partition(";")[0]) or ""
    match part.WhichOneof("content"):
        case "text":
            return part.text.encode(), "", suffix or ".txt"
        case "data":
            return indented(part.data).encode(), "", ".json"
        case "url":
            return b"", part.url, suffix or ".bin"
    return part.raw, "", suffix or ".bin"


def _safe(name: str) -> str:
    """Return a name that stays in its folder, and shows in listings."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _UNSAFE.sub("_", last).strip(". ")
    while len(plain.encode()) > _LONGEST:
        plain = plain[: len(plain) // 2 - 1] + plain[len(plain) // 2 + 1 :]
    return plain


def _write(path: Path, content: bytes, *, force: bool) -> None:
    """Never write through a link that stands in the folder."""
    try:
        if force and (path.is_symlink() or path.is_file()):
            path.unlink()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)
    except OSError as error:
        raise CommandFailure(INTERNAL, f"{path}: {error.strerror or error}") from None


async def _fetched(url: str) -> bytes:
    """Fetch a linked file, without any credential."""
    found = bytearray()
    try:
        async with aiohttp.ClientSession() as session, session.get(url, raise_for_status=True) as response:
            while len(found) <= _MOST_BYTES and (chunk := await response.content.readany()):
                found += chunk
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CommandFailure(UNREACHABLE, f"{url[:200]} cannot be fetched: {str(error)[:200]}") from None
    if len(found) > _MOST_BYTES:
        raise CommandFailure(INTERNAL, f"{url[:200]} has more than {_MOST_BYTES} bytes")
    return bytes(found)
