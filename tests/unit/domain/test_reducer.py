"""How single events change a task, and that however a log is cut, the same task comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import text_part
from a2a_server.domain.reducer import TaskArtifacts, add_message, apply_status, fold, trim
from tests.property.messages import STRUCTS
from tests.support.events import agent_message, artifact_event, status_event

WORKING, COMPLETED = pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED
INPUT, AUTH = pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED


def status(state: int, says: str = "") -> pb.TaskStatus:
    message = agent_message(says, "c", "t", [text_part(says)]) if says else None
    return status_event("t", "c", state, 1, message).status_update.status


def answer(text: str) -> pb.Message:
    return pb.Message(message_id=text, role=pb.ROLE_USER, parts=[text_part(text)])


def history(task: pb.Task) -> list[str]:
    return [message.message_id for message in task.history]


def chunk(text: str, *, append: bool, last: bool = False, **members: object) -> pb.TaskArtifactUpdateEvent:
    artifact = pb.Artifact(artifact_id="a", parts=[text_part(text)], **members)  # type: ignore[arg-type]
    return artifact_event("t", "c", artifact, append=append, last_chunk=last).artifact_update


def texts(shelf: TaskArtifacts) -> dict[str, list[str]]:
    return {artifact.artifact_id: [part.text for part in artifact.parts] for artifact in shelf.task.artifacts}


class TestHead:
    @pytest.mark.req("GEN-09")
    def test_progress_leaves_no_trace(self) -> None:
        head = pb.Task(status=status(WORKING, "thinking"))
        apply_status(head, status(COMPLETED, "done"))
        assert head.status == status(COMPLETED, "done")
        assert history(head) == []

    @pytest.mark.parametrize("state", [INPUT, AUTH])
    def test_a_question_joins_the_history_when_work_goes_on(self, state: int) -> None:
        head = pb.Task(status=status(state, "question"))
        apply_status(head, status(WORKING))
        assert history(head) == ["question"]
        assert not head.status.HasField("message")

    def test_a_question_without_words_adds_nothing(self) -> None:
        head = pb.Task(status=status(INPUT))
        apply_status(head, status(WORKING))
        assert history(head) == []

    def test_an_answer_stands_after_its_question_and_the_question_stands_once(self) -> None:
        head = pb.Task(status=status(INPUT, "question"))
        add_message(head, answer("answer"))
        assert history(head) == ["question", "answer"]
        assert head.status.state == INPUT
        apply_status(head, status(WORKING))
        assert history(head) == ["question", "answer"]

    def test_two_questions_in_a_row_are_both_kept(self) -> None:
        head = pb.Task(status=status(INPUT, "first"))
        apply_status(head, status(INPUT, "second"))
        add_message(head, answer("answer"))
        assert history(head) == ["first", "second", "answer"]

    def test_a_message_to_a_working_task_joins_the_history(self) -> None:
        head = pb.Task(status=status(WORKING, "thinking"))
        add_message(head, answer("faster"))
        assert history(head) == ["faster"]
        assert head.status == status(WORKING, "thinking")


class TestArtifactShelf:
    @pytest.mark.req("ARTF-01")
    def test_without_append_an_artifact_is_made_or_replaced_in_its_place(self) -> None:
        shelf = TaskArtifacts()
        shelf.apply(chunk("one", append=False, name="old"))
        shelf.apply(artifact_event("t", "c", pb.Artifact(artifact_id="b", parts=[text_part("b")])).artifact_update)
        shelf.apply(chunk("two", append=False))
        assert list(texts(shelf).items()) == [("a", ["two"]), ("b", ["b"])]
        assert not shelf.task.artifacts[0].name

    @pytest.mark.req("ARTF-02")
    def test_append_adds_parts_behind(self) -> None:
        shelf = TaskArtifacts()
        shelf.apply(chunk("one", append=False))
        shelf.apply(chunk("two", append=True))
        shelf.apply(chunk("three", append=True))
        assert texts(shelf) == {"a": ["one", "two", "three"]}

    @pytest.mark.req("ARTF-02")
    def test_append_to_nothing_starts_an_artifact(self) -> None:
        shelf = TaskArtifacts()
        shelf.apply(chunk("one", append=True))
        assert texts(shelf) == {"a": ["one"]}

    @pytest.mark.req("MSGS-03")
    def test_an_artifact_id_stays_unique(self) -> None:
        shelf = TaskArtifacts()
        for append in (True, False, True, False):
            shelf.apply(chunk("x", append=append))
        assert len(shelf.task.artifacts) == 1

    def test_a_chunk_takes_over_what_it_says_and_leaves_the_rest(self) -> None:
        shelf = TaskArtifacts()
        shelf.apply(chunk("1", append=False, name="n", description="d", extensions=["u"], metadata={"x": 1, "y": 1}))
        shelf.apply(chunk("2", append=True, name="m", extensions=["u", "v"], metadata={"y": 2, "z": 2}))
        shelf.apply(chunk("3", append=True))
        artifact = shelf.task.artifacts[0]
        assert (artifact.name, artifact.description, list(artifact.extensions)) == ("m", "d", ["u", "v"])
        assert dict(artifact.metadata.items()) == {"x": 1, "y": 2, "z": 2}

    def test_what_a_task_already_has_is_found(self) -> None:
        task = pb.Task(artifacts=[pb.Artifact(artifact_id="a", parts=[text_part("one")])])
        shelf = TaskArtifacts(task)
        shelf.apply(chunk("two", append=True))
        assert texts(shelf) == {"a": ["one", "two"]}
        assert shelf.task is task

    def test_the_last_chunk_closes_and_a_replacement_opens_again(self) -> None:
        shelf = TaskArtifacts()
        shelf.apply(chunk("1", append=False))
        assert not shelf.closed("a")
        shelf.apply(chunk("2", append=True, last=True))
        assert shelf.closed("a")
        shelf.apply(chunk("3", append=True))
        assert shelf.closed("a")
        shelf.apply(chunk("4", append=False))
        assert not shelf.closed("a")
        assert not shelf.closed("unknown")

    def test_the_size_grows_by_what_was_applied(self) -> None:
        shelf = TaskArtifacts()
        updates = [chunk("one", append=False), chunk("two" * 1000, append=True)]
        for update in updates:
            shelf.apply(update)
        assert shelf.size == sum(update.ByteSize() for update in updates)

    def test_ten_thousand_artifacts(self) -> None:
        shelf = TaskArtifacts()
        for _ in range(2):
            for index in range(10_000):
                artifact = pb.Artifact(artifact_id=str(index), parts=[text_part("x")])
                shelf.apply(artifact_event("t", "c", artifact, append=True).artifact_update)
        assert len(shelf.task.artifacts) == 10_000
        assert all(len(artifact.parts) == 2 for artifact in shelf.task.artifacts)


class TestFold:
    def test_a_task_event_replaces_everything(self) -> None:
        task = pb.Task(id="old", artifacts=[pb.Artifact(artifact_id="a", parts=[text_part("old")])])
        chunked = [pb.StreamResponse(artifact_update=chunk(text, append=True)) for text in ("lost", "new")]
        fold(task, [chunked[0], pb.StreamResponse(task=pb.Task(id="t")), chunked[1]])
        assert task == pb.Task(id="t", artifacts=[pb.Artifact(artifact_id="a", parts=[text_part("new")])])

    def test_every_kind_of_entry(self) -> None:
        task = pb.Task(id="t", status=status(INPUT, "question"))
        tail = [
            pb.StreamResponse(message=answer("answer")),
            status_event("t", "c", WORKING, 2),
            pb.StreamResponse(artifact_update=chunk("one", append=False)),
            pb.StreamResponse(artifact_update=chunk("two", append=True)),
            status_event("t", "c", COMPLETED, 3),
            pb.StreamResponse(),
        ]
        fold(task, tail)
        assert history(task) == ["question", "answer"]
        assert task.status.state == COMPLETED
        assert [part.text for part in task.artifacts[0].parts] == ["one", "two"]


def task(messages: int = 5) -> pb.Task:
    history = [pb.Message(message_id=str(number)) for number in range(messages)]
    return pb.Task(id="t", history=history, artifacts=[pb.Artifact(artifact_id="a")])


@pytest.mark.parametrize(
    ("wish", "cap", "shown"),
    [
        pytest.param(None, 9, "01234", marks=pytest.mark.req("HIST-01"), id="no-wish-shows-all"),
        pytest.param(None, 2, "34", marks=pytest.mark.req("HIST-01"), id="no-wish-up-to-the-cap"),
        pytest.param(0, 9, "", marks=pytest.mark.req("HIST-02"), id="zero-shows-none"),
        pytest.param(1, 9, "4", marks=pytest.mark.req("HIST-03"), id="one-shows-the-newest"),
        pytest.param(3, 9, "234", marks=pytest.mark.req("HIST-03"), id="three-newest-in-order"),
        pytest.param(5, 9, "01234", marks=pytest.mark.req("HIST-03"), id="exactly-all"),
        pytest.param(2**31 - 1, 9, "01234", marks=pytest.mark.req("HIST-03"), id="more-than-there-are"),
        pytest.param(4, 2, "1234", id="a-wish-beats-the-cap"),
    ],
)
def test_history(wish: int | None, cap: int, shown: str) -> None:
    given = task()
    assert trim(given, wish, cap=cap) is given
    assert "".join(message.message_id for message in given.history) == shown
    assert len(given.artifacts) == 1


def test_artifacts_can_be_left_out() -> None:
    assert trim(task(), None, include_artifacts=False, cap=9).artifacts == []


STATES = st.sampled_from([int(state) for state in pb.TaskState.values() if state])
WORDS = st.sampled_from(["a", "b", "c"])
PARTS = st.lists(WORDS.map(text_part), min_size=1, max_size=2)
SAYINGS = st.none() | st.builds(agent_message, WORDS, st.just("c"), st.just("t"), PARTS)
ARTIFACTS = st.builds(
    pb.Artifact,
    artifact_id=WORDS,
    name=st.sampled_from(["", "n", "m"]),
    description=st.sampled_from(["", "d"]),
    extensions=st.lists(WORDS, max_size=2),
    metadata=st.none() | STRUCTS,
    parts=PARTS,
)
CHUNKS = st.tuples(ARTIFACTS, st.booleans(), st.booleans()).map(
    lambda chunk: artifact_event("t", "c", chunk[0], append=chunk[1], last_chunk=chunk[2])
)
STATUSES = st.tuples(STATES, SAYINGS).map(lambda status: status_event("t", "c", status[0], 1, status[1]))
ANSWERS = st.builds(pb.Message, message_id=WORDS, parts=PARTS).map(lambda message: pb.StreamResponse(message=message))
LOGS = st.lists(st.one_of(CHUNKS, STATUSES, ANSWERS), max_size=12)


def whole(log: list[pb.StreamResponse]) -> pb.Task:
    task = pb.Task(id="t", context_id="c")
    fold(task, log)
    return task


def one_by_one(log: list[pb.StreamResponse]) -> tuple[pb.Task, TaskArtifacts]:
    """As a running turn does it: the head and the artifacts apart."""
    head, shelf = pb.Task(id="t", context_id="c"), TaskArtifacts()
    for event in log:
        if event.HasField("artifact_update"):
            shelf.apply(event.artifact_update)
        elif event.HasField("status_update"):
            apply_status(head, event.status_update.status)
        else:
            add_message(head, event.message)
    return head, shelf


@given(LOGS)
def test_folding_is_applying_one_by_one(log: list[pb.StreamResponse]) -> None:
    head, shelf = one_by_one(log)
    head.artifacts.extend(shelf.task.artifacts)
    assert head == whole(log)


@given(LOGS)
def test_head_and_artifacts_parse_as_the_task(log: list[pb.StreamResponse]) -> None:
    head, shelf = one_by_one(log)
    assert pb.Task.FromString(head.SerializeToString() + shelf.task.SerializeToString()) == whole(log)


@given(LOGS, st.data())
def test_a_newer_head_over_older_artifacts_and_a_tail(log: list[pb.StreamResponse], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    head, _ = one_by_one(log)
    _, shelf = one_by_one(log[:cut])
    task = pb.Task.FromString(head.SerializeToString() + shelf.task.SerializeToString())
    fold(task, (event for event in log[cut:] if event.HasField("artifact_update")))
    assert task == whole(log)


@given(LOGS, st.data())
def test_a_log_may_be_folded_in_two(log: list[pb.StreamResponse], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    task = whole(log[:cut])
    fold(task, log[cut:])
    assert task == whole(log)


@given(LOGS, LOGS)
def test_a_task_event_starts_anew(before: list[pb.StreamResponse], after: list[pb.StreamResponse]) -> None:
    restart = pb.StreamResponse(task=pb.Task(id="t", context_id="c"))
    assert whole([*before, restart, *after]) == whole(after)


@given(LOGS)
def test_events_are_left_as_they_were(log: list[pb.StreamResponse]) -> None:
    before = [event.SerializeToString(deterministic=True) for event in log]
    whole(log)
    assert [event.SerializeToString(deterministic=True) for event in log] == before


@pytest.mark.req("ARTF-04")
@given(st.lists(CHUNKS, max_size=12))
def test_clients_assemble_what_is_stored(log: list[pb.StreamResponse]) -> None:
    assembled: dict[str, list[str]] = {}
    for event in log:
        update = event.artifact_update
        texts = [part.text for part in update.artifact.parts]
        known = assembled.get(update.artifact.artifact_id, [])
        assembled[update.artifact.artifact_id] = [*known, *texts] if update.append else texts
    stored = [(artifact.artifact_id, [part.text for part in artifact.parts]) for artifact in whole(log).artifacts]
    assert stored == list(assembled.items())


@given(st.lists(CHUNKS, max_size=12))
def test_the_shelf_knows_what_is_closed(log: list[pb.StreamResponse]) -> None:
    _, shelf = one_by_one(log)
    for artifact_id in "abc":
        updates = [e.artifact_update for e in log if e.artifact_update.artifact.artifact_id == artifact_id]
        starts = [index for index, update in enumerate(updates) if not update.append]
        current = updates[starts[-1] :] if starts else updates
        assert shelf.closed(artifact_id) is any(update.last_chunk for update in current)
