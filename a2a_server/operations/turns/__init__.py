"""Turns: each message gets one, and in it the agent runs once.

1. `sending.py` checks where a message belongs: a new task, one that waits for input, or one that is at work.
   `idempotency.py` recognises a message that was sent before.
2. `exchange.py` is the message on its way: what the agent is told, and what its sender waits for.
3. `live_task.py` drives the agent, one turn after another, and ends early when it is asked to.
4. `turn_events.py` checks what the agent says, and passes it on to the task's writer (`log/writer.py`).
5. `registry.py` knows which tasks have live turns, and lets only so many run at once.
6. `idle_tasks.py` moves tasks that nobody works on; `recovery.py` settles what a dead process has left behind.
"""
