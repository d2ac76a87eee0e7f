"""How single events change a task."""

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import agent_message, artifact_event, status_event, text_part
from a2a_server.domain.reducer import ArtifactShelf, add_message, apply_status, fold

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


def texts(shelf: ArtifactShelf) -> dict[str, list[str]]:
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
        shelf = ArtifactShelf()
        shelf.apply(chunk("one", append=False, name="old"))
        shelf.apply(artifact_event("t", "c", pb.Artifact(artifact_id="b", parts=[text_part("b")])).artifact_update)
        shelf.apply(chunk("two", append=False))
        assert list(texts(shelf).items()) == [("a", ["two"]), ("b", ["b"])]
        assert not shelf.task.artifacts[0].name

    @pytest.mark.req("ARTF-02")
    def test_append_adds_parts_behind(self) -> None:
        shelf = ArtifactShelf()
        shelf.apply(chunk("one", append=False))
        shelf.apply(chunk("two", append=True))
        shelf.apply(chunk("three", append=True))
        assert texts(shelf) == {"a": ["one", "two", "three"]}

    @pytest.mark.req("ARTF-02")
    def test_append_to_nothing_starts_an_artifact(self) -> None:
        shelf = ArtifactShelf()
        shelf.apply(chunk("one", append=True))
        assert texts(shelf) == {"a": ["one"]}

    @pytest.mark.req("MSGS-03")
    def test_an_artifact_id_stays_unique(self) -> None:
        shelf = ArtifactShelf()
        for append in (True, False, True, False):
            shelf.apply(chunk("x", append=append))
        assert len(shelf.task.artifacts) == 1

    def test_a_chunk_takes_over_what_it_says_and_leaves_the_rest(self) -> None:
        shelf = ArtifactShelf()
        shelf.apply(chunk("1", append=False, name="n", description="d", extensions=["u"], metadata={"x": 1, "y": 1}))
        shelf.apply(chunk("2", append=True, name="m", extensions=["u", "v"], metadata={"y": 2, "z": 2}))
        shelf.apply(chunk("3", append=True))
        artifact = shelf.task.artifacts[0]
        assert (artifact.name, artifact.description, list(artifact.extensions)) == ("m", "d", ["u", "v"])
        assert dict(artifact.metadata.items()) == {"x": 1, "y": 2, "z": 2}

    def test_what_a_task_already_has_is_found(self) -> None:
        task = pb.Task(artifacts=[pb.Artifact(artifact_id="a", parts=[text_part("one")])])
        shelf = ArtifactShelf(task)
        shelf.apply(chunk("two", append=True))
        assert texts(shelf) == {"a": ["one", "two"]}
        assert shelf.task is task

    def test_the_last_chunk_closes_and_a_replacement_opens_again(self) -> None:
        shelf = ArtifactShelf()
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
        shelf = ArtifactShelf()
        updates = [chunk("one", append=False), chunk("two" * 1000, append=True)]
        for update in updates:
            shelf.apply(update)
        assert shelf.size == sum(update.ByteSize() for update in updates)

    def test_ten_thousand_artifacts(self) -> None:
        shelf = ArtifactShelf()
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
