"""The operations of the protocol and the turns of agents, independent of transport (design 4, 6).

1. The operation with the RPC's name gets a `Call` and a request (`rpc/`).
2. A message gets a turn (`turns/`): the agent runs, and its events go to the task's only writer.
3. The writer numbers the events, applies them to the task and commits them (`log/`). All readers of a task read its
   log.
4. The same commit stores the deliveries of webhooks. They are sent from the store (`push/`).
5. `core.py` connects these parts. `services.py` has the objects that they share.
"""
