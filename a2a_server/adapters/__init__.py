"""The ports, implemented. Only the composition root imports adapters, and no adapter imports another, except `sql/`.

`memory/`, `sqlite/` and `postgres/` are stores and pass the same suite; `sql/` has what the last two share. `webhook/`
sends webhooks, `sealing` encrypts their secrets and the content of stores, `auth` knows callers by tokens and API keys,
and `defaults` has what is used when nothing else is configured.
"""
