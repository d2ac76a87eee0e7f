"""What server and gateway share, and the only part of the server that the gateway imports.

1. `names` has each header, metadata key, media type and URI once; `errors` is the one table of errors.
2. `options` has the gateway's settings, which operators set beside those of the server.
3. `codec/` reads and writes JSON by functions compiled from descriptors; `json_v1` is the JSON of 1.0.
4. `v0_3/` translates 0.3, `draft/` the draft of December 2025; `spellings` is what their JSON shares.
"""
