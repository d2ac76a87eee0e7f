"""A server's process is tuned while it starts, and its main thread stays as it was."""

import gc
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from a2a_server.cli.tuning import collect_seldom, patient_threads


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the policy")
def test_threads_that_start_meanwhile_are_patient() -> None:
    policies: list[int] = []
    before = os.sched_getscheduler(0)
    with patient_threads():
        thread = threading.Thread(target=lambda: policies.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
    assert policies == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == before


def test_systems_without_the_policy_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "SCHED_BATCH", raising=False)
    monkeypatch.delattr(os, "sched_setscheduler", raising=False)
    with patient_threads():
        pass


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_what_the_start_has_built_is_not_looked_at_again() -> None:
    collect_seldom()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] > 700
