"""Turns. Each message gets one turn, in which the agent runs once.

1. `sending.py` finds the task of a message: a new one, one that waits for input, or one with a running turn.
   `idempotency.py` recognises a send that was made before.
2. `exchange.py` has the input of the turn, and the object that the sender waits on.
3. `live_task.py` runs the agent, one turn after another, and carries out cancels and time limits. `turn_failures.py`
   records why a turn failed.
4. `turn_events.py` checks the agent's events, and passes them to the task's writer (`log/writer.py`).
5. `registry.py` has all tasks with live turns, and limits how many turns run at once.
6. `idle_tasks.py` changes tasks without a live turn. `recovery.py` handles the turns that a dead process left behind.
"""
