"""Several servers on one store: each has a session, and asks the others about turns that are theirs (design 6).

1. `session.py` keeps this server's session alive. When that fails its turns are given up, and others take them over.
2. `letters.py` carries questions from session to session, and the answers back.
3. `elsewhere.py` sends messages and cancels to the session that has the task's turns, and follows the task from here.
4. Everything else needs nothing of that: reads, lists and streams read the store, whoever writes to it.

A server that has its store for itself has a session, too, but nobody to tell of it.
"""
