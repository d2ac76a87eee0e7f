"""Faults of a 0.3 message that leave nothing to map: collected, and told all at once (spec: ERRS-05)."""

from __future__ import annotations

from a2a_server.protocol.errors import Violation, refuse

Faults = list[Violation]
"""In the spelling of the 0.3 proto: `request.content[0].file`."""


def settle(faults: Faults) -> None:
    if faults:
        refuse(faults)
