"""The gRPC doors of 1.0 and 0.3.

1. `server.py` opens one grpc.aio server for all services, with health and reflection.
2. `servicer.py` and `servicer_v0_3.py` make a handler for every RPC of a service, read from its descriptor. They read
   what a client sends beside its request, and refuse or cut its call.
3. `accepting.py` accepts many calls at once, where nothing asks for grpc.aio's own way, waits for their messages, and
   bounds the calls that are open.
4. `peers.py` bounds the connections of each address.
"""
