"""The agent card as the gateway shows it.

1. The card comes from the upstream; `card_file` reads it from a file for upstreams that do not serve one over gRPC.
2. `agent_card` replaces its HTTP interfaces by the gateway's own URLs.
3. `agent_card` chooses the form by the client's version: 1.0, 0.3, or one JSON with the members of both.
4. `agent_card` writes the JSON, and answers with the headers for caching.
"""
