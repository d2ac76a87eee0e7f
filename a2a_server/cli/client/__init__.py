"""The client half of the command line, as the A2A CLI specification 0.2 says (spec: cli.md).

1. `command` reads the command line: options before and after, parts in their order. `settings` lists the settings,
   `sources` says where each value comes from.
2. `send`, `tasks`, `cards`, `login` and `own` define the commands. They import little, so that `--help` is quick; what
   the commands do is in `sending`, `task_calls`, `card_calls`, `conversation`, `agent_checks`.
3. `connected_agent` connects to the agent and says its failures; `waiting` follows a task up to its outcome.
4. `output` prints results as text or JSON, `live_view` for a person who watches; `failures` prints errors.
5. `parts` makes messages of flags, `downloads` saves artifacts, `logins` and `oauth` get and keep tokens.
"""
