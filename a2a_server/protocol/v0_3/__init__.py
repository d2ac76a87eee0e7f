"""Translates A2A 0.3 in one place, between the messages of 0.3 (`a2a.v1`) and those of 1.0 (spec: LMAP).

One call through any door of 0.3:

1. gRPC has a message of 0.3 already. From JSON it is read by `json`, in one of two spellings: ProtoJSON, or the JSON
   schema of 0.3 with its `kind` (`kind`, `extras`, `configs`).
2. `messages`, `parts` and `configs` make a request of 1.0 of it. What cannot be mapped is refused with the spelling of
   the client; whether a mapped request is sound is the 1.0 core's to say.
3. The operation of 1.0 is called. `error_words` puts its complaints into the names and words of 0.3.
4. `messages`, `configs` and `cards` make messages of 0.3 of the answer, or of each item of a stream.
5. `json` writes them, `cards` writes cards.

`grpc_calls` has both directions by RPC, for gRPC. `resource_names` takes apart the names that 0.3 has in place of ids.
"""
