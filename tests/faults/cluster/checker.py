"""Judges a recorded history: pure functions, each of which finds one kind of fault (spec: SCAL-06).

Every finding is a sentence. A history without findings is one in which nothing was lost, doubled, reordered or stuck.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import isinf
from operator import itemgetter

from a2a_proto import a2a_pb2 as pb
from tests.faults.cluster.history import MESSAGE, TASK, Entry, Heard, History, Turn, span
from tests.support.house import TERMINAL

ACTIVE = frozenset({pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING})
_SLACK = 1e-3
"""Two processes read one clock; a turn that ends notes it a moment later."""

Check = Callable[[History], Iterator[str]]


def check(history: History) -> list[str]:
    """All that is wrong."""
    return [finding for one in CHECKS for finding in one(history)]


def logs_without_gaps(history: History) -> Iterator[str]:
    """Every log is numbered 1, 2, 3 …, and has no event twice."""
    for task in history.resting.values():
        numbers = [entry.number for entry in task.log]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{task.task}: the log is numbered {_short(numbers)}"
        for digest, count in Counter(entry.digest for entry in task.log).items():
            if count > 1:
                same = [entry.number for entry in task.log if entry.digest == digest]
                yield f"{task.task}: the entries {same} are the same event"


def one_order_for_all(history: History) -> Iterator[str]:
    """Whoever saw a number saw the event that the log has there, on whichever server."""
    for heard in history.heard:
        found = _entry(history, heard.task, heard.number)
        if found is None:
            yield f"{heard.task}: {heard.reader} saw the event {heard.number} on {heard.server}, which is not there"
        elif TASK not in {heard.kind, found.kind} and heard.digest != found.digest:
            yield f"{heard.task}: {heard.reader} saw another event {heard.number} on {heard.server} than the log has"


def readers_miss_nothing(history: History) -> Iterator[str]:
    """Between two events that a reader saw, the log has none that readers are shown."""
    for (reader, task), events in _by_reader(history).items():
        log = history.resting[task].log if task in history.resting else ()
        shown = {entry.number for entry in log if entry.kind != MESSAGE}
        for before, after in pairwise(events):
            if after.kind == TASK and after.number > before.number:
                continue  # a snapshot holds all that came before it
            if after.number <= before.number:
                yield f"{task}: {reader} saw {after.number} on {after.server} after {before.number}"
            elif missed := sorted(shown & set(range(before.number + 1, after.number))):
                yield f"{task}: {reader} missed {missed} between {before.number} and {after.number}"


def acknowledged_is_there_once(history: History) -> Iterator[str]:
    """An acknowledged message is in the history of the task that the answer named, once, and nowhere else."""
    places: dict[str, list[str]] = defaultdict(list)
    for task in history.resting.values():
        for message in task.messages:
            places[message].append(task.task)
    for answer in history.acknowledged:
        if (found := places[answer.message]) != [answer.task]:
            yield f"{answer.task}: the acknowledged message {answer.message} is in {found}"
        elif answer.state in TERMINAL and answer.state != history.resting[answer.task].state:
            state = history.resting[answer.task].state
            yield f"{answer.task}: was acknowledged as {_name(answer.state)} and is {_name(state)}"


def completed_is_whole(history: History) -> Iterator[str]:
    """What a completed task holds is what its agent has made."""
    texts = {sent.message: sent.text for sent in history.sent if sent.text is not None}
    for task in history.resting.values():
        text = texts.get(task.messages[0], task.text) if task.messages else task.text
        if task.state == pb.TASK_STATE_COMPLETED and task.text != text:
            yield f"{task.task}: holds {task.text!r} in place of {text!r}"


def one_writer_for_an_epoch(history: History) -> Iterator[str]:
    """Epochs and numbers never go back, and each epoch has the writer that began it."""
    owners: dict[tuple[str, int], str] = {}
    last: dict[str, tuple[int, int]] = {}
    for write in history.written:
        owner = owners.setdefault((write.task, write.epoch), write.writer)
        if owner != write.writer:
            yield f"{write.task}: {write.writer} wrote {write.number} in the epoch {write.epoch} of {owner}"
        epoch, number = last.get(write.task, (0, 0))
        if write.epoch < epoch or write.number < number:
            yield f"{write.task}: epoch {write.epoch}, number {write.number} came after {epoch}, {number}"
        last[write.task] = write.epoch, write.number


def one_turn_at_a_time(history: History) -> Iterator[str]:
    """No task has two turns that run at once."""
    for task, turns in _by_task(history.turns).items():
        latest: tuple[float, Turn] | None = None
        for (began, ended), turn in sorted(((span(turn, history.away), turn) for turn in turns), key=itemgetter(0)):
            if latest is not None and began < latest[0] - _SLACK:
                one = latest[1]
                yield f"{task}: {turn.process} ran {turn.message} while {one.process} ran {one.message}"
            if latest is None or ended > latest[0]:
                latest = ended, turn


def nothing_is_stuck(history: History) -> Iterator[str]:
    """In the end every task rests, or has a turn that lives."""
    for task in history.resting.values():
        turns = [turn for turn in history.turns if turn.task == task.task]
        if task.state in ACTIVE and not any(isinf(span(turn, history.away)[1]) for turn in turns):
            yield f"{task.task}: is {_name(task.state)}, and nobody works on it"


def sends_ran_once(history: History) -> Iterator[str]:
    """A message has one task, however often it was sent, and one turn, unless it may run again."""
    restartable = {sent.message for sent in history.sent if sent.restartable}
    answers: dict[str, set[str]] = defaultdict(set)
    for answer in history.acknowledged:
        answers[answer.message].add(answer.task)
    for message, tasks in answers.items():
        if len(tasks) > 1:
            yield f"{message}: was answered with several tasks: {sorted(tasks)}"
    for message, count in Counter(turn.message for turn in history.turns).items():
        if count > 1 and message not in restartable:
            yield f"{message}: ran {count} times"


def webhooks_arrive_in_order(history: History) -> Iterator[str]:
    """Each event is accepted at least once for each config, and none comes first before an earlier one has come."""
    came: dict[str, list[int]] = defaultdict(list)
    accepted: dict[str, set[int]] = defaultdict(set)
    for hook in history.hooks:
        if hook.number not in came[hook.config]:
            came[hook.config].append(hook.number)
        if hook.accepted:
            accepted[hook.config].add(hook.number)
        found = _entry(history, hook.task, hook.number)
        if found is None:
            yield f"{hook.task}: {hook.config} was told of {hook.number}, which is not there"
        elif TASK not in {hook.kind, found.kind} and hook.digest != found.digest:
            yield f"{hook.task}: {hook.config} was told another {hook.number} than the log has"
    for config, numbers in came.items():
        if numbers != sorted(numbers):
            yield f"{config}: came in the order {_short(numbers)}"
    for config, task in history.configs.items():
        log = history.resting[task].log if task in history.resting else ()
        if missed := sorted({entry.number for entry in log if entry.kind != MESSAGE} - accepted[config]):
            yield f"{config}: was not told of {_short(missed)} of {task}"


def servers_agree(history: History) -> Iterator[str]:
    """In the end every server shows the same."""
    views: dict[str, set[str]] = defaultdict(set)
    for _, task, digest in history.views:
        views[task].add(digest)
    yield from (f"{task}: servers show {len(seen)} different tasks" for task, seen in views.items() if len(seen) > 1)


def nothing_surprised(history: History) -> Iterator[str]:
    """No client got an answer that no fault excuses."""
    yield from history.surprises


CHECKS: Sequence[Check] = (
    logs_without_gaps,
    one_order_for_all,
    readers_miss_nothing,
    acknowledged_is_there_once,
    completed_is_whole,
    one_writer_for_an_epoch,
    one_turn_at_a_time,
    nothing_is_stuck,
    sends_ran_once,
    webhooks_arrive_in_order,
    servers_agree,
    nothing_surprised,
)


def _entry(history: History, task: str, number: int) -> Entry | None:
    resting = history.resting.get(task)
    return next((one for one in resting.log[number - 1 : number] if number), None) if resting else None


def _by_reader(history: History) -> dict[tuple[str, str], list[Heard]]:
    found: dict[tuple[str, str], list[Heard]] = defaultdict(list)
    for heard in history.heard:
        found[heard.reader, heard.task].append(heard)
    return found


def _by_task(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    found: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        found[turn.task].append(turn)
    return found


def _name(state: int) -> str:
    return pb.TaskState.Name(state).removeprefix("TASK_STATE_")


def _short(numbers: Sequence[int]) -> str:
    return str(numbers) if len(numbers) < 40 else f"{[*numbers[:40]]} …"
