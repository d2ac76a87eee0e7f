"""The gRPC doors of 1.0 and 0.3.

1. `server.py` opens one grpc.aio server for all services, with health and reflection.
2. `servicer.py` and `servicer_v0_3.py` make a handler for every RPC of a service, read from its descriptor. They read
   what a client sends beside its request, and refuse or cut its call.
3. `accepting.py` accepts many calls at once, where nothing asks for grpc.aio's own way, waits for their messages, and
   bounds the calls that are open.
4. `waiting_calls.py` ends calls whose message does not come, and bounds what has arrived of such messages.
5. `unread_answers.py` bounds what large answers take that nobody reads.
6. `peers.py` bounds the connections of each address, tells what each has brought, and cuts those of step 5.
"""
