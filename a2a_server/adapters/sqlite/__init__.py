"""The default store: one SQLite file and one process. Acknowledged writes survive kill -9 (spec: DURA-01).

1. `schema` opens and migrates the file, and reads the named queries from the `.sql` files.
2. `store` has the methods of the port. Each hands a function with its statements to the writer or a reader.
3. `writer` runs what waits in one transaction, and commits it in a thread.
4. The statements are in `tasks` (with turns, leases and receipts), `lists` and `push`.
5. Content is sealed and opened where rows are written and read. `content_keys` knows the keys that are in use.
6. `push_admin`, `kept_admin` and `rekeying` are for the command line, beside a running server.
"""

from a2a_server.adapters.sqlite.store import SqliteStore as SqliteStore
