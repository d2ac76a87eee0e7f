"""No authentication: every caller is the one anonymous owner."""

from __future__ import annotations

from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials


class Anonymous:
    """For one machine and one user, or behind something that has decided already."""

    required = False
    card = CardSecurity()
    _caller = Caller()

    async def authenticate(self, credentials: Credentials) -> Caller:
        return self._caller
