"""What the server does, free of transport: the operations of the protocol, and the turns behind them (design 4, 6).

1. A call arrives as a `Call` and a request at the operation that bears the RPC's name (`rpc/`).
2. A message gets a turn (`turns/`): the agent runs, and what it says goes to the task's one writer.
3. The writer numbers, folds and commits events (`log/`); whoever follows the task reads the log, and nothing else.
4. Webhooks are owed by the same commit, and are delivered from the store (`push/`).
5. `core.py` puts all of it together; `services.py` holds what the parts share.
"""
