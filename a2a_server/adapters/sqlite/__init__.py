"""The default store: one file, one process, no service; what it has acknowledged survives kill -9 (spec: DURA-01)."""

from a2a_server.adapters.sqlite.store import SqliteStore as SqliteStore
