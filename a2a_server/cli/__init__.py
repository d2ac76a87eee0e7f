"""The command line, `a2ad`.

1. `commands.py` and `push.py` define commands and options. They import little, so that `--help` is quick.
2. `configuration.py` merges options with environment and file, and prints settings.
3. `log_output.py` configures the log.
4. `loading.py` finds the agent; `process.py` runs a server or a gateway until a signal comes.
5. `supervisor.py` runs several of these processes, and `reloading.py` replaces one when its code changes. `worker.py`
   has both ends of what they say to each other.
6. `health.py` asks a running one from outside.
7. `project.py` makes a project from the templates in `projects/`.
"""
