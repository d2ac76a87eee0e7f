"""Whose: the boundary inside which tasks, contexts and configs are visible (spec: AUTZ-02, AUTZ-03, TENA-05)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """Part of every lookup; what lies outside does not exist for the caller."""

    tenant: str
    owner: str
