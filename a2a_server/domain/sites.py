"""Which host a webhook burdens: what attempts are counted and bounded by (spec: PAID-02)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from a2a_server.domain.webhooks import target_of

UNKNOWN: Final = "?"


@lru_cache(maxsize=1024)
def site_of(url: str) -> str:
    """`host:port` in one spelling, whatever the URL's."""
    try:
        target = target_of(url)
    except ValueError:
        return UNKNOWN
    return f"{target.host}:{target.port}"
