"""`make walk`: the files and functions that a call runs through, in order.

1. `stage.py` starts a real server, on a SQLite file and on real ports, in this process.
2. `client.py` calls it from a process of its own, so that no client's code is in the picture.
3. `record.py` writes down each function of the project that runs while a call is under way, in all threads.
4. `page.py` writes the lists of files in docs/architecture.md anew.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # the clients are other programs: nothing of gRPC is forked
