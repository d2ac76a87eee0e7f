"""REST routes, derived from the annotations of the protos.

1. `annotations` reads google.api.http from the service descriptors and checks every route; it also refuses routes that
   collide with the gateway's own pages.
2. `template` parses their path templates.
3. `url_fields` finds the fields that a path or a query names.
4. `table` puts the routes into a trie of segments, and finds the route of a request.
"""
