"""How the client reads settings, and how it writes what agents say (spec: OP-02, OP-08, OP-14)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.downloads import saved_parts
from a2a_server.cli.client.live_view import LiveView
from a2a_server.cli.client.output import TextPrinter, resume, state_name
from a2a_server.cli.client.plain_text import lines_of, one_line
from a2a_server.cli.client.settings import bindings, count, duration, json_object, parameters, protocol_version
from a2a_server.cli.client.sources import agent_name


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (duration, "500ms", 0.5),
        (duration, "2s", 2.0),
        (duration, "5m", 300.0),
        (duration, "1.5", 1.5),
        (count, "0", 0),
        (bindings, "rest, GRPC", ("HTTP+JSON", "GRPC")),
        (bindings, "JsonRpc", ("JSONRPC",)),
        (parameters, "a:1\nb = x:y", (("a", "1"), ("b", "x:y"))),
        (protocol_version, "1.0.1", "1.0"),
        (json_object, '{"a": [1]}', {"a": [1]}),
        (agent_name, "https://ann@Agents.Example:8443/card.json", "agents.example_8443"),
        (agent_name, "localhost", "localhost"),
    ],
)
def test_settings_are_read(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((duration, text) for text in ("", "0", "-1", "1d", "nan", "31000h")),
        *((count, text) for text in ("-1", "1.0", "²", "99999999999")),
        *((bindings, text) for text in ("", "soap")),
        *((parameters, text) for text in ("", "a", "ä:1", "a b:1", "a:\x01")),
        *((json_object, text) for text in ("[]", "{", '{"a": NaN}')),
        (protocol_version, "one"),
    ],
)
def test_what_makes_no_sense_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        read(text)


@pytest.mark.req("CLI-32")
def test_text_of_agents_moves_no_cursor() -> None:
    assert one_line("a\x1b[2J\n\u202eb\ud800") == "a\\x1b[2J\\n\\u202eb\\ud800"
    assert lines_of("a\r\nb\tc\rd") == ["a", "b\tc\\rd"]
    assert one_line("👩\u200d🚀 naïve") == "👩\u200d🚀 naïve"


@pytest.mark.req("CLI-29", "CLI-14")
def test_states_and_commands_are_as_on_the_wire() -> None:
    assert (state_name(99), state_name(0)) == ("99", "TASK_STATE_UNSPECIFIED")
    assert resume(["a2ad"], "t'1", "", pb.TASK_STATE_INPUT_REQUIRED) == """a2ad send --task-id 't'"'"'1' "<reply>\""""
    assert resume(["a2ad"], "", "c", -1) == 'a2ad send --context-id c "<text>"'


@pytest.mark.req("CLI-62")
def test_names_of_files_stay_in_their_folder() -> None:
    names = [
        "../../etc/passwd",
        "..",
        "C:\\windows\\a.txt",
        "a\x00b/\u202egpj.exe",
        "ä" * 200 + ".pdf",
        "A.TXT",
        "a.txt",
    ]
    parts = [pb.Part(raw=b"x", filename=name) for name in names]
    task = pb.Task(artifacts=[pb.Artifact(artifact_id="../x", parts=parts)])
    found = [part.name for part in saved_parts(task)]
    assert found[:4] == ["passwd", "x.bin", "a.txt", "_gpj.exe"]
    assert (len(found[4].encode()) <= 150, found[4][-4:]) == (True, ".pdf")
    assert found[5:] == ["A-2.TXT", "a-3.txt"]
    assert all(Path(name).name == name for name in found)


@pytest.mark.req("CLI-02")
def test_texts_grow_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView(TextPrinter(["a2ad"]), colors=False)
    for text, append in (("Once", False), (" upon\x1b[2J", True)):
        artifact = pb.Artifact(artifact_id="a", name="story", parts=[pb.Part(text=text)])
        view.event(pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact, append=append)))
    whole = pb.Artifact(artifact_id="a", name="story", parts=[pb.Part(text="Once upon\x1b[2J a time")])
    status = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED)
    view.event(pb.StreamResponse(task=pb.Task(id="t", artifacts=[whole], status=status)))
    view.end()
    assert capsys.readouterr().out.splitlines() == [
        "[artifact story]",
        "Once upon\\x1b[2J",
        "[completed]",
        "[artifact story]",
        " a time",
    ]
