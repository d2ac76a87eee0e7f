"""Webhooks: accepting push configs and delivering to them.

1. `configs` checks a new push config, asks its receiver to confirm it (if configured), and encrypts its secrets.
2. A commit stores the deliveries and wakes the `relay`.
3. The relay claims due deliveries, as many as `schedule` allows.
4. `configs` also makes the body of each webhook from the log. The sender (an adapter) makes the attempt.
5. After a success the relay removes the delivery. After a failure `schedule` decides: try again later, skip the
   delivery, or park its config.

`push_options` has the settings.
"""
