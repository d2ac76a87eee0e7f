"""The parts that server and gateway share. The gateway imports nothing else of the server.

1. `names` has each header, metadata key, media type and URI once. `errors` has the only table of errors.
2. `options` has the gateway's settings.
3. `codec/` reads and writes JSON with functions that are compiled from descriptors. `json_v1` is the JSON of 1.0.
4. `v0_3/` translates 0.3, and `draft/` the draft of December 2025. `spellings` has what their JSON shares.
"""
