"""The log of a task. It has one writer and any number of readers.

1. `writer.py` numbers an event, applies it to the task, and queues it for the next commit.
2. `snapshot.py` has the task as the next commit will leave it, and the contents of that commit.
3. After a commit, the writer wakes the readers through `ports/wakeups.py`. Nobody sees an event before it is durable.
4. `readers.py` gives entries to readers. They share the latest ones. A reader that falls behind reads from the store.
5. `task_stream.py` chooses what a client sees of a log, also from a cursor on (replay).
"""
