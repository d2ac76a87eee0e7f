"""A server's process is tuned, and what was there before comes back."""

import gc
import os
import sys
import threading

import pytest

from a2a_server.cli.process import RARELY, patient_threads, rare_collections


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


def test_collections_are_rare_and_pass_over_what_the_start_has_made() -> None:
    before = gc.get_threshold()
    made: list[object] = [[]]
    with rare_collections():
        assert gc.get_threshold() == RARELY
        assert gc.get_freeze_count() > 0
        assert not any(thing is made for thing in gc.get_objects())
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
