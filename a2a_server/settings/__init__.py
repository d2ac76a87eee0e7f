"""Everything an operator may choose, checked before anything starts (spec: OPER-05)."""

from a2a_server.settings.model import Log, Settings
from a2a_server.settings.sections import Auth, Credential
from a2a_server.settings.sources import SettingsError, load

__all__ = ["Auth", "Credential", "Log", "Settings", "SettingsError", "load"]
