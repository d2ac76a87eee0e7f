"""Which tenant a call belongs to (spec: TENA-01, TENA-04, TENA-06, TENA-07)."""

from __future__ import annotations

from dataclasses import dataclass, field

from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse

RESERVED = frozenset({"tasks", "v1", "extendedAgentCard", ".well-known", "message:send", "message:stream"})
"""First segments of the plain routes: as `/{tenant}/…` these names would never be reached (CONF-49)."""

LONGEST = 255


@dataclass(frozen=True, slots=True)
class Tenants:
    """The tenants this server serves; none named means that every value is a space of its own."""

    served: frozenset[str] = field(default_factory=frozenset)
    default: str = ""

    def __post_init__(self) -> None:
        for name in (*self.served, self.default):
            if fault := fault_of(name):
                raise ValueError(f'tenant "{name}": {fault}')
        if self.served and self.default and self.default not in self.served:
            raise ValueError(f'default tenant "{self.default}": must be one of the tenants')

    def of(self, asked: str, caller: Caller) -> str:
        """Return the tenant of a call that names `asked`, or nothing.

        Another caller's tenant and one that nobody has are the same to the caller (TENA-04).
        """
        tenant = asked or caller.tenant or self.default
        if not tenant and not self.served:
            return tenant
        if (caller.tenant and tenant != caller.tenant) or (self.served and tenant not in self.served):
            raise A2AError(Reason.PERMISSION_DENIED, "The caller may not act in this tenant.")
        check_form(tenant)
        return tenant


def check_form(tenant: str) -> None:
    """Refuse what can be nobody's name."""
    if len(tenant) > LONGEST or not tenant.isprintable():
        refuse([Violation("tenant", f"must have at most {LONGEST} characters, all printable")])


def fault_of(name: str) -> str:
    """Say what makes a configured name unusable; empty when nothing does."""
    if name in RESERVED:
        return "is a fixed segment of the HTTP routes and cannot be a tenant"
    if len(name) > LONGEST or not name.isprintable() or "/" in name:
        return f"must have at most {LONGEST} printable characters and no slash"
    return ""
