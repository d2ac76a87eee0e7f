#!/usr/bin/env python3
"""Write a copy of the tasks of a running server to standard output; docs/deploy.md says when and how.

docker compose exec -T server python - < deploy/backup.py > a2a-backup.db
"""

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path


def main() -> None:
    store = Path(os.environ["A2A_STORE"].removeprefix("sqlite:///")).absolute()
    # Beside the database, where there is room for one; in a read-only container there is nowhere else.
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=store.parent) as folder:
        path = Path(folder, store.name)
        copy_to(path, store)
        with path.open("rb") as copy:
            shutil.copyfileobj(copy, sys.stdout.buffer)


def copy_to(path: Path, store: Path) -> None:
    """Read one moment of the database. The server goes on writing meanwhile."""
    with (
        closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        sys.exit(f"{store}: {verdict}")


if __name__ == "__main__":
    main()
