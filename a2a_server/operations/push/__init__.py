"""Webhooks: accepting push configs and delivering to them.

1. `configs` checks a new push config, challenges its receiver if so configured, and seals its secrets.
2. A commit queues deliveries in the store and wakes the `relay`.
3. The relay claims due deliveries, as many as `schedule` has room for.
4. `configs` makes the body of each webhook from the log, too; the sender (an adapter) makes the attempt.
5. The relay removes a delivery that was made. `schedule` says when a failed one is tried again, or parks its config.

`push_options` are what operators choose.
"""
