"""The checker finds every bug that is planted in a history, and none in a sound one (spec: SCAL-06)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.faults.cluster.checker import check
from tests.faults.cluster.history import (
    Acknowledged,
    Away,
    Entry,
    Heard,
    History,
    Hook,
    Resting,
    Sent,
    Turn,
    Written,
)

WORKING, COMPLETED, FAILED = (
    int(pb.TaskState.Value(f"TASK_STATE_{name}")) for name in ("WORKING", "COMPLETED", "FAILED")
)
LOG = (
    Entry(1, "task", "made"),
    Entry(2, "status_update", "working"),
    Entry(3, "artifact_update", "1;"),
    Entry(4, "message", "said"),
    Entry(5, "artifact_update", "2;"),
    Entry(6, "status_update", "completed"),
)
SHOWN = [entry for entry in LOG if entry.kind != "message"]


def sound() -> History:
    """A task that went from a server which was killed to another, with two readers and a webhook."""
    return History(
        sent=[Sent("m", restartable=True, text="1;2;"), Sent("once")],
        acknowledged=[Acknowledged("m", "t", COMPLETED), Acknowledged("said", "t", 0)],
        heard=[
            *(Heard("reader", "a", "t", entry.number, entry.kind, entry.digest) for entry in SHOWN[:3]),
            *(Heard("reader", "b", "t", entry.number, entry.kind, entry.digest) for entry in SHOWN[3:]),
            *(Heard("other", "b", "t", entry.number, entry.kind, entry.digest) for entry in SHOWN),
        ],
        hooks=[
            Hook("c", "t", 1, accepted=False, kind="task", digest="made"),
            *(Hook("c", "t", entry.number, accepted=True, kind=entry.kind, digest=entry.digest) for entry in SHOWN),
            Hook("c", "t", 2, accepted=True, kind="status_update", digest="working"),
        ],
        configs={"c": "t"},
        turns=[Turn("t", "m", "a", 1.0), Turn("t", "m", "b", 9.0, 10.0)],
        away=[Away("a", 5.0)],
        written=[Written("a", "t", 2, 1), Written("a", "t", 3, 1), Written("b", "t", 3, 2), Written("b", "t", 6, 2)],
        resting={"t": Resting("t", COMPLETED, ("m", "said"), "1;2;", LOG)},
        views=[("b", "t", "same"), ("c", "t", "same")],
    )


def test_a_sound_history_has_no_findings() -> None:
    assert check(sound()) == []


def _changed(history: History, **changes: object) -> None:
    history.resting["t"] = replace(history.resting["t"], **changes)  # type: ignore[arg-type]  # of any member


def a_gap(history: History) -> None:
    _changed(history, log=(*LOG[:2], *LOG[3:]))
    history.heard, history.hooks, history.configs = [], [], {}


def a_number_twice(history: History) -> None:
    _changed(history, log=(*LOG, Entry(6, "status_update", "another")))


def an_event_twice(history: History) -> None:
    _changed(history, log=(*LOG[:4], Entry(5, "artifact_update", "1;"), LOG[5]))
    history.heard, history.hooks = history.heard[:3], [*history.hooks]


def two_orders(history: History) -> None:
    history.heard[4] = replace(history.heard[4], digest="2;")
    history.heard[3] = replace(history.heard[3], digest="completed")


def an_event_that_is_lost(history: History) -> None:
    _changed(history, log=LOG[:5])
    history.hooks = history.hooks[:4]


def a_reader_that_misses_one(history: History) -> None:
    del history.heard[2]


def a_reader_that_goes_back(history: History) -> None:
    history.heard.insert(4, history.heard[2])


def a_message_that_is_lost(history: History) -> None:
    _changed(history, messages=("m",))


def a_message_twice(history: History) -> None:
    _changed(history, messages=("m", "said", "said"))


def a_message_in_two_tasks(history: History) -> None:
    history.resting["u"] = Resting("u", COMPLETED, ("said",), "", LOG[:1])


def an_end_that_is_another(history: History) -> None:
    _changed(history, state=FAILED)


def a_text_with_a_hole(history: History) -> None:
    _changed(history, text="1;")


def two_writers_in_an_epoch(history: History) -> None:
    history.written.insert(3, Written("a", "t", 4, 2))


def an_epoch_that_goes_back(history: History) -> None:
    history.written.insert(3, Written("a", "t", 4, 1))


def a_number_that_goes_back(history: History) -> None:
    history.written.insert(3, Written("b", "t", 2, 2))


def two_turns_at_once(history: History) -> None:
    history.away = []


def a_turn_inside_another(history: History) -> None:
    history.turns = [Turn("t", "m", "b", 1.0, 10.0), Turn("t", "m", "b", 2.0, 3.0), Turn("t", "m", "b", 8.0, 9.0)]


def a_task_that_is_stuck(history: History) -> None:
    _changed(history, state=WORKING)
    history.acknowledged = []


def a_webhook_that_is_lost(history: History) -> None:
    history.hooks = [hook for hook in history.hooks if hook.number != 5]


def a_webhook_that_was_refused_for_good(history: History) -> None:
    history.hooks = [replace(hook, accepted=hook.number != 5) for hook in history.hooks]


def webhooks_out_of_order(history: History) -> None:
    history.hooks[3], history.hooks[4] = history.hooks[4], history.hooks[3]


def a_webhook_of_nothing(history: History) -> None:
    history.hooks.append(Hook("c", "t", 7, accepted=True))


def a_webhook_with_another_event(history: History) -> None:
    history.hooks[3] = replace(history.hooks[3], digest="2;")


def a_send_that_ran_twice(history: History) -> None:
    history.turns += [Turn("u", "once", "b", 1.0, 2.0), Turn("v", "once", "c", 3.0, 4.0)]


def a_send_with_two_answers(history: History) -> None:
    history.acknowledged.append(Acknowledged("m", "u", 0))
    history.resting["u"] = Resting("u", COMPLETED, (), "", LOG[:1])


def servers_that_differ(history: History) -> None:
    history.views[1] = ("c", "t", "another")


def an_error(history: History) -> None:
    history.surprises.append("a answered INTERNAL: Internal error.")


@pytest.mark.req("SCAL-06")
@pytest.mark.parametrize(
    ("plant", "finding"),
    [
        (a_gap, "t: the log is numbered [1, 2, 4, 5, 6]"),
        (a_number_twice, "t: the log is numbered [1, 2, 3, 4, 5, 6, 6]"),
        (an_event_twice, "t: the entries [3, 5] are the same event"),
        (two_orders, "t: reader saw another event 5 on b than the log has"),
        (an_event_that_is_lost, "t: reader saw the event 6 on b, which is not there"),
        (a_reader_that_misses_one, "t: reader missed [3] between 2 and 5"),
        (a_reader_that_goes_back, "t: reader saw 3 on a after 5"),
        (a_message_that_is_lost, "t: the acknowledged message said is in []"),
        (a_message_twice, "t: the acknowledged message said is in ['t', 't']"),
        (a_message_in_two_tasks, "t: the acknowledged message said is in ['t', 'u']"),
        (an_end_that_is_another, "t: was acknowledged as COMPLETED and is FAILED"),
        (a_text_with_a_hole, "t: holds '1;' in place of '1;2;'"),
        (two_writers_in_an_epoch, "t: a wrote 4 in the epoch 2 of b"),
        (an_epoch_that_goes_back, "t: epoch 1, number 4 came after 2, 3"),
        (a_number_that_goes_back, "t: epoch 2, number 2 came after 2, 3"),
        (two_turns_at_once, "t: b ran m while a ran m"),
        (a_turn_inside_another, "t: b ran m while b ran m"),
        (a_task_that_is_stuck, "t: is WORKING, and nobody works on it"),
        (a_webhook_that_is_lost, "c: was not told of [5] of t"),
        (a_webhook_that_was_refused_for_good, "c: was not told of [5] of t"),
        (webhooks_out_of_order, "c: came in the order [1, 2, 5, 3, 6]"),
        (a_webhook_of_nothing, "t: c was told of 7, which is not there"),
        (a_webhook_with_another_event, "t: c was told another 3 than the log has"),
        (a_send_that_ran_twice, "once: ran 2 times"),
        (a_send_with_two_answers, "m: was answered with several tasks: ['t', 'u']"),
        (servers_that_differ, "t: servers show 2 different tasks"),
        (an_error, "a answered INTERNAL: Internal error."),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_is_found(plant: Callable[[History], None], finding: str) -> None:
    history = sound()
    plant(history)
    assert finding in check(history)


def test_a_task_may_be_at_work_in_a_server_that_lives() -> None:
    history = sound()
    _changed(history, state=WORKING)
    history.acknowledged, history.turns = [], [Turn("t", "m", "b", 9.0)]
    assert check(history) == []


def test_a_snapshot_holds_what_came_before_it() -> None:
    history = sound()
    history.heard[:3] = [Heard("reader", "a", "t", 3, "task", "any")]
    assert check(history) == []
