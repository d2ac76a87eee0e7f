"""The command line, `a2ad`.

1. `commands.py` and `push.py` define commands and options. They import little, so that `--help` is quick.
2. `configuration.py` merges options with environment and file, and prints settings.
3. `log_output.py` configures the log.
4. `loading.py` finds the agent; `process.py` runs a server or a gateway until a signal comes.
5. `health.py` asks a running one from outside.
"""
