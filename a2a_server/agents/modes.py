"""Which media types the client wants back (spec: SEND-08)."""

from __future__ import annotations

from collections.abc import Iterable


def accepts(accepted: Iterable[str], mode: str) -> bool:
    """Whether one of the accepted patterns (`image/png`, `image/*`, `*/*`) covers a media type; nothing said is all."""
    patterns = [_plain(pattern) for pattern in accepted]
    mode = _plain(mode)
    return not patterns or any(_covers(pattern, mode) for pattern in patterns)


def _covers(pattern: str, mode: str) -> bool:
    return pattern in ("*/*", "*", mode) or (pattern.endswith("/*") and mode.startswith(pattern[:-1]))


def _plain(mode: str) -> str:
    """Without parameters such as `; charset=utf-8`, which say how and not what."""
    return mode.partition(";")[0].strip().lower()
