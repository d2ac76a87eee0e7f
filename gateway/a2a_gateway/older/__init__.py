"""Serves older versions over HTTP, by calls of 1.0 that go through the same `Calls` as those of 1.0's clients.

1. The dispatcher asks `v0_3/doors.py` and `draft/doors.py` for the handler of a path.
2. The handler's binding translates the request to 1.0, with `a2a_server.protocol`, and makes the call.
3. The answer is translated back to the spelling of the request. `errors.py` writes errors in the form of that version.
"""
