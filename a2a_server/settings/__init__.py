"""Everything that an operator can set, checked before anything starts (spec: OPER-05).

1. `load` (sources.py) merges flags, environment and file, and knows where each value came from.
2. `Settings` (model.py) checks single values, then what several of them say together.
3. Its sections are the options that the parts below define (`Limits`, `GrpcOptions` …), those in
   sections.py, auth.py, issuers.py and roles.py.
"""

from a2a_server.settings.auth import Auth
from a2a_server.settings.credentials import Credential
from a2a_server.settings.model import Log, Settings
from a2a_server.settings.roles import Role
from a2a_server.settings.sources import SettingsError, load

__all__ = ["Auth", "Credential", "Log", "Role", "Settings", "SettingsError", "load"]
