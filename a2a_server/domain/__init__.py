"""The rules of the protocol, as pure functions on its messages.

1. `validation` checks a request. It uses `checkers` (generated from the `demands` of the schema), `free_form` and
   `media_types`. `scope` is the owner whose tasks a call may see, `trace` the caller's trace.
2. `events` makes the events of a task. `lifecycle` has the allowed changes of state.
3. `reducer` applies events to the task. `paging` makes the cursors of lists.
4. `input_requests` handles questions with an id, and answers that must be kept secret.
5. `webhooks` and `hosts` decide where webhooks may be sent.
"""
