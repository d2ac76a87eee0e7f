"""Show how far the tests are, and which file runs: `pytest -p tests.support.progress` (`make test` does).

A terminal shows one line that changes; a log file gets a line for every twentieth of the tests.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

STEPS = 20
"""Lines in a log file."""
SECOND = 1.0


def share(done: int, total: int) -> str:
    return f"{100 * done // max(total, 1):3d} %"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Counts what has ended, in the process that prints."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._began = self._shown = time.monotonic()
        self._done = 0
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @property
    def _total(self) -> int:
        """Known when all workers have collected."""
        return self._session.testscollected if self._session is not None else 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no letter for what is well."""
        return ("passed" if report.when == "call" else "", "", "") if report.passed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._print(f"FAILED {report.nodeid}")

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._done += 1
        if self._due():
            told = (
                share(self._done, self._total),
                f"{self._done:,} of {self._total:,} tests",
                self._clock(),
                location[0],
            )
            self._print("  ".join(told), end="" if self._live else "\n")

    def pytest_sessionfinish(self) -> None:
        if self._live:
            self._print("", end="")

    def _due(self) -> bool:
        """Once a second, or at every step."""
        if not self._live:
            return self._done * STEPS // max(self._total, 1) > (self._done - 1) * STEPS // max(self._total, 1)
        now = time.monotonic()
        if now - self._shown < SECOND and self._done < self._total:
            return False
        self._shown = now
        return True

    def _clock(self) -> str:
        return clock(time.monotonic() - self._began)

    def _print(self, line: str, end: str = "\n") -> None:
        before = "\r\x1b[2K" if self._live else ""
        sys.stderr.write(f"{before}{line}{end}")
        sys.stderr.flush()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers print nothing
        config.pluginmanager.register(Progress(live=sys.stderr.isatty()), "progress")
