"""A server's process is tuned while it starts, and its main thread stays as it was."""

import os
import sys
import threading

import pytest

from a2a_server.cli.tuning import patient_threads


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
