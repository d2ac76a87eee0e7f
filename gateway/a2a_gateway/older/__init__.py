"""The doors of older versions over HTTP. Each makes calls of 1.0, through the same `Calls` as the doors of 1.0.

1. The dispatcher asks the doors of a version whether a path is theirs (`v0_3/doors.py`, `draft/doors.py`).
2. The binding reads the request and makes a call of 1.0 of it; `a2a_server.protocol` translates the messages.
3. The answer goes back in the same spelling, and `errors.py` writes failures in the client's words.
"""
