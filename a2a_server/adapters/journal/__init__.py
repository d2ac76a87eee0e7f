"""What is written down about calls: the audit, and the access log.

1. `AuditLog` takes audit events, sums up repeated denials, and writes all of it a few times per second.
2. `AccessLines` takes calls that have ended, and writes a line for each.
3. Both write JSON by `lines.py`, which lets no text begin a line of its own; `LineFile` is the audit's own file.
"""

from a2a_server.adapters.journal.access_log import AccessLines
from a2a_server.adapters.journal.audit_log import AuditLog
from a2a_server.adapters.journal.lines import LineFile

__all__ = ["AccessLines", "AuditLog", "LineFile"]
