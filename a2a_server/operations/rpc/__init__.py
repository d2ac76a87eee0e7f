"""One class per RPC, named exactly as the RPC; `core.py` lists them.

1. A unary operation checks its request and answers with a message. `SendMessage` has its answer as bytes (`wire`).
2. A streaming operation returns a stream, and begins when the first batch is asked for (`log/task_stream.py`).
3. Both refuse a call by an `A2AError`, before it has had any effect.
"""
