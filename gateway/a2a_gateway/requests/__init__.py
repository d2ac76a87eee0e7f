"""Reads HTTP requests: makes a message and metadata of them.

1. `binding` makes the request message from path, query and body, and later picks the part of the answer to send.
2. `headers` checks the headers and makes metadata of them. `api_keys` does so with API keys in a query or a cookie.
3. `media_types` checks `Content-Type`, and chooses the media type of the answer by `Accept`.
4. `proxies` finds the client's address and URL behind trusted proxies.
"""
