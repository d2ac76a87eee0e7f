"""What an HTTP request says, as a message and metadata.

1. `binding` makes the request message from path, query and body, and later picks the part of the answer to send.
2. `headers` makes metadata from the headers, and chooses the media type of the answer by `Accept`.
3. `proxies` finds the client's address and URL behind trusted proxies.
"""
