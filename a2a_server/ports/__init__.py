"""What the core needs from outside: one Protocol per point of variation.

- `agent`: who answers messages, what it is given, and where its events go.
- `authenticator`: who calls.
- `access`: whether the caller may call now: the operator's policy, and limits on rates.
- `keys`: API keys in the store.
- `store`: where tasks are kept, with the values in `records`; what is removed when it is old, in `retention`.
- `shards`: what operators see of a store on several databases.
- `push`: what is kept of webhooks, who sends them, who seals their secrets.
- `wakeups`: who is told of new entries.
- `journal`: where the access log and the audit go.
- `fetching`: small documents from servers that the operator names.
- `clock`: what time it is.
"""
