"""What the core needs from outside: one Protocol per point of variation.

- `agent`: who answers messages, what it is given, and where its events go.
- `authenticator`: who calls.
- `store`: where tasks are kept, with the values in `records`.
- `push`: what is kept of webhooks, who sends them, who seals their secrets.
- `wakeups`: who is told of new entries.
- `clock`: what time it is.
"""
