"""A store of dicts: the port's semantics without the durability."""

from a2a_server.adapters.memory.store import MemoryStore as MemoryStore
