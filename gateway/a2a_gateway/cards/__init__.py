"""The agent card as the gateway serves it.

1. The card comes from the upstream. For upstreams that do not serve one over gRPC, `card_file` reads it from a file.
2. `agent_card` replaces its HTTP interfaces by the gateway's own (`interfaces`), and signs it.
3. `agent_card` chooses the form by the client's version: 1.0, 0.3, or one JSON with the members of both. It signs forms
   other than 1.0's separately.
4. `agent_card` answers with the JSON and the headers for caching.
5. `resource_metadata` makes the Protected Resource Metadata of the card, for clients that need a token.
"""
