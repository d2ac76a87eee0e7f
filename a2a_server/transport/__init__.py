"""Every way into the server: several doors, one pipeline.

1. A door takes a call: `grpc/` from a socket, `local.py` from the gateway in this process.
2. `pipeline.py` passes it through its steps (`steps.py`) and calls the operation.
3. `open_streams.py` passes on what a stream yields, limits how many are open, and cuts readers that do not read.

`address.py`, `grpc_options.py` and `tls/` hold what operators say about doors.
"""
