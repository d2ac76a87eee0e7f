"""The scope of a call: the tenant and owner whose tasks, contexts and configs it can see (spec: AUTZ-02, TENA-05)."""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """Part of every lookup. For the caller, nothing exists outside of it."""

    # A tuple, because it is part of many keys: hashed and compared several times per call.
    tenant: str
    owner: str
