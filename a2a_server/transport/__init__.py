"""Every way into the server: several doors, one pipeline.

1. A door takes a call: `grpc/` from a socket, `local.py` from the gateway in this process.
2. `pipeline.py` passes it through its steps (`steps.py`) and calls the operation.
3. A stream is registered in `streams.py`, which limits how many are open and cuts readers that do not read.
4. `call_stream.py` passes on what a stream yields, and decides what a client is told about a failure.

`address.py`, `certificates.py` and `options.py` hold what operators say about doors.
"""
