"""One class per RPC, named exactly as the RPC; `core.py` lists them.

1. A unary operation checks its request and answers with a message. `SendMessage` answers with bytes (`wire`).
2. A streaming operation returns a stream. It begins when the first batch is requested (`log/task_stream.py`).
3. Both refuse a call with an `A2AError`, before the call has any effect.
"""
