"""The rules of the protocol, as pure functions on its messages.

1. A request is checked by `validation`, which uses `checkers` (generated from `demands` of the schema), `free_form` and
   `media_types`. `scope` says whose tasks it is about, `trace` which trace it belongs to.
2. What the agent does becomes `events`. `lifecycle` says which changes of state are allowed.
3. `reducer` applies events to the task. `paging` makes the cursors of lists.
4. `input_requests` are questions with an id, and answers that may have to be kept secret.
5. `webhooks` and `hosts` decide where webhooks may go.
"""
