"""The store in memory: for tests and demos. Nothing survives the process.

1. `store` has the methods of the port. Each runs without suspending, so the event loop is its transaction.
2. `tasks` holds the rows of tasks, and the sorted index for lists.
3. `push` holds configs and their deliveries, sorted by host and time.
"""

from a2a_server.adapters.memory.store import MemoryStore as MemoryStore
