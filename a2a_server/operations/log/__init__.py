"""The log of a task: written by one, read by any number.

1. `writer.py` numbers an event, folds it into the task, and queues it for the next commit.
2. `snapshot.py` knows the task as it will stand, and what the next commit will hold.
3. After a commit the writer wakes the readers through `ports/wakeups.py`. Nothing is told before it is durable.
4. `readers.py` hands entries to readers. They share the latest ones; a reader that falls behind reads the store.
5. `task_stream.py` shows a client what it may see of a log, also from a cursor on (replay).
"""
