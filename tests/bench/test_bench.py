from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from generated import a2a_pb2 as pb
from tests.bench import equality, report, requests
from tests.bench.__main__ import main
from tests.bench.cases import CASES
from tests.bench.fill import fill
from tests.bench.h2 import Broken
from tests.bench.lab import VERSION, Effort, Lab, stub
from tests.bench.load import Plan, drive
from tests.bench.processes import NotStarted, Server, free_port, running
from tests.bench.rows import ALONE, GROWTH, SDK, Row, Target

ECHO = Plan("SendMessage", [requests.send("echo")], connections=2, depth=2)
ROWS = [
    Row(section=SDK, bench="send", metric="calls/s", ours=[600, 800, 1400], other=[100, 100, 200],
        higher_is_better=True, target=Target("≥", 6)),
    Row(section=SDK, bench="send", metric="server CPU µs/call", ours=[10.0], other=[25.0]),
    Row(section=GROWTH, bench="list", metric="elapsed µs/call", ours=[400.0], other=[100.0], target=Target("≤", 3)),
    Row(section=ALONE, bench="idle", metric="coroutines per task", ours=[0], target=Target("≤", 0)),
]  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    before = os.sched_getaffinity(0)
    yield Lab(tmp_path, Effort(rounds=2, seconds=0.05, quick=True))
    assert os.sched_getaffinity(0) == before


def test_both_servers_answer_alike_and_take_load(lab: Lab) -> None:
    with lab.ours("memory") as ours, lab.sdk("memory") as sdk:
        equality.check(ours, sdk)
        loads = lab.compare({"ours": (ours, ECHO), "sdk": (sdk, ECHO)})
    assert [len(found) for found in loads.values()] == [2, 2]
    for load in (*loads["ours"], *loads["sdk"]):
        assert load.calls == load.messages >= 4
        assert load.server_cpu > 0
        assert 0 < load.first <= load.latency < load.seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ours, with 120 tasks to begin with."""
    folder = tmp_path_factory.mktemp("bench")
    fill(folder / "filled.db", 120)
    with Lab(folder, Effort()).ours("sqlite", file=folder / "filled.db") as server:
        yield server


def test_filled_tasks_are_as_good_as_others(server: Server) -> None:
    request = pb.ListTasksRequest(page_size=100, include_artifacts=True)
    with stub(server) as client:
        page = client.ListTasks(request, metadata=VERSION)
        request.page_token = page.next_page_token
        oldest = client.ListTasks(request, metadata=VERSION).tasks[-1]
    assert page.total_size >= 120
    assert oldest.artifacts[0].parts[0].text == requests.TEXT
    assert oldest.status.state == pb.TASK_STATE_COMPLETED


def test_a_number_of_calls_is_kept(server: Server) -> None:
    assert drive(server, ECHO, calls=7).calls == 7
    stream = Plan("SendStreamingMessage", [requests.send("chunks", "5")], 1, 1, messages=8)
    assert drive(server, stream, calls=3).messages == 24


def test_wrong_answers_are_noticed(server: Server) -> None:
    with pytest.raises(Broken, match="1 messages instead of 3"):
        drive(server, Plan("SendMessage", [requests.send("echo")], messages=3), calls=1)
    with pytest.raises(Broken, match="a call failed"):
        drive(server, Plan("GetTask", [requests.get("none")]), calls=1)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(NotStarted, match="no such luck"),
        running("luckless", ["-c", "raise SystemExit('no such luck')"], free_port(), tmp_path, {}),
    ):
        pytest.fail("it runs")


def test_essence_keeps_which_ids_are_equal() -> None:
    def task(one: str, other: str) -> pb.Task:
        return pb.Task(id=one, context_id=other, history=[pb.Message(task_id=one)])

    assert equality.essence([task("a", "b")]) == equality.essence([task("c", "d")])
    assert equality.essence([task("a", "b")]) != equality.essence([task("a", "a")])


def test_ratios_say_better_or_dearer() -> None:
    assert [list(row.ratios()) for row in ROWS] == [[6, 8, 7], [2.5], [4], []]
    assert [row.verdict() for row in ROWS] == [True, None, False, True]


def test_tables_name_every_row_and_json_keeps_every_sample() -> None:
    table = report.as_markdown(ROWS, Effort())
    assert "| send | calls/s" in table.replace("  ", "")
    assert all(found in table for found in ("7.00×", "≥ 6× met", "≤ 3× MISSED"))  # noqa: RUF001 - as tables are printed
    found = json.loads(report.as_json(ROWS, Effort()))
    assert found["rows"][0]["ours"] == [600, 800, 1400]
    assert found["rows"][2]["met"] is False


def test_results_are_written_between_their_marks_only(tmp_path: Path) -> None:
    document = tmp_path / "doc.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_into(document, "new")
    assert document.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="has no <!-- results -->"):
        report.write_into(document, "new")


def test_help_names_every_benchmark() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    assert all(name in shown for name in CASES)


def test_the_published_document_has_the_marks() -> None:
    text = Path("docs/benchmarks.md").read_text("utf-8")
    assert text.index(report.BEGIN) < text.index(report.END)
