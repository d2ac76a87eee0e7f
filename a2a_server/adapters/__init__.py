"""The ports, implemented. No adapter imports another, and only the composition root imports any.

`memory/` and `sqlite/` are stores and pass the same suite. `webhook/` sends webhooks, `sealing` encrypts their secrets,
`auth` knows callers by tokens and API keys, and `defaults` has what is used when nothing else is configured.
"""
