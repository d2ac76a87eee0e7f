"""Whose: the boundary inside which tasks, contexts and configs are visible (spec: AUTZ-02, AUTZ-03, TENA-05)."""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """Part of every lookup; what lies outside does not exist for the caller."""

    # A tuple, because it is part of many keys: hashed and compared several times per call.
    tenant: str
    owner: str
