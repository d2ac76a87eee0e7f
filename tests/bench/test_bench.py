from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from a2a_proto import a2a_pb2 as pb
from tests.bench import equality, old_door, report, requests
from tests.bench.__main__ import main
from tests.bench.audience import Stage, gate, perform, stall, task_stage, was_cut
from tests.bench.cases import CASES
from tests.bench.doors import DOORS, Request
from tests.bench.exchange import Broken, Exchange
from tests.bench.fill import fill
from tests.bench.http1 import DONE, Connection, HttpPlan
from tests.bench.lab import VERSION, Effort, Lab, stub
from tests.bench.load import Plan, drive
from tests.bench.processes import NotStarted, Program, Server, free_port, python, running
from tests.bench.requests import Show
from tests.bench.rows import ALONE, GROWTH, SDK, Row, Target

SUBSCRIBE = Request("GET", "/subscribe", streams=True)
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


@pytest.mark.long
def test_both_servers_answer_alike_and_take_load(lab: Lab) -> None:
    with lab.ours("memory") as ours, lab.sdk("memory") as sdk:
        equality.check(ours, sdk)
        loads = lab.compare({"ours": (ours, ECHO), "sdk": (sdk, ECHO)})
    assert [len(found) for found in loads.values()] == [2, 2]
    for load in (*loads["ours"], *loads["sdk"]):
        assert load.calls == load.messages >= 4
        assert load.server_cpu > 0
        assert 0 < load.first <= load.latency < load.seconds


@pytest.mark.long
def test_http_doors_answer_alike_and_take_load(lab: Lab) -> None:
    with lab.ours("memory") as ours, lab.sdk("memory", http=True, legacy=True) as sdk:
        equality.check(ours, sdk, doors=DOORS)
        equality.alike(old_door.answers, ours, sdk)
        for door in DOORS:
            chunks = HttpPlan("stream", [door.stream("chunks", "5").raw()], DONE, connections=2, messages=8)
            for plan in (HttpPlan("send", [door.send("echo").raw()], DONE, connections=2), chunks):
                loads = lab.compare({"ours": (ours, plan), "sdk": (sdk, plan)})
                for load in (*loads["ours"], *loads["sdk"]):
                    assert load.messages >= load.calls * plan.messages >= 2
                    assert load.server_cpu > 0
                    assert 0 < load.first <= load.latency < load.seconds
        for server in (ours, sdk):
            show = Show(gate(), 3)
            assert perform(server, task_stage(server, show), audience=5, events=4).events in {20, 25}


@pytest.mark.long
def test_a_gateway_of_its_own_answers_as_its_server_does(lab: Lab) -> None:
    with lab.ours("memory") as server, lab.ours("memory") as other, lab.gateway(server) as gateway:
        equality.check(gateway, other, doors=DOORS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ours, with 120 tasks to begin with."""
    folder = tmp_path_factory.mktemp("bench")
    fill(folder / "filled.db", 120)
    with Lab(folder, Effort()).ours("sqlite", place=folder / "filled.db") as server:
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
    assert 24 <= drive(server, stream, calls=3).messages <= 27


def test_wrong_answers_are_noticed(server: Server) -> None:
    with pytest.raises(Broken, match=r"a2ad-sqlite-.* answered SendMessage by 1 messages instead of 3"):
        drive(server, Plan("SendMessage", [requests.send("echo")], messages=3), calls=1)
    with pytest.raises(Broken, match="a call failed"):
        drive(server, Plan("GetTask", [requests.get("none")]), calls=1)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Lab(tmp_path_factory.mktemp("bare"), Effort()).bare(size=300) as server:
        yield server


def _stage(server: Server, events: int) -> Stage:
    return Stage(SUBSCRIBE, partial(Request("POST", f"/begin?events={events}&pause=0").fetch, server))


def test_an_audience_gets_every_event(bare: Server) -> None:
    delivery = perform(bare, _stage(bare, 7), audience=5, events=7)
    assert delivery.events == 35
    assert delivery.rate > 0
    assert delivery.cost >= 0  # so little work may take no time that the kernel has noticed
    assert (delivery + delivery).cost == pytest.approx(delivery.cost)


def test_events_that_do_not_come_are_noticed(bare: Server) -> None:
    with pytest.raises(Broken, match="sent 35 events instead of 5 times 8"):
        perform(bare, _stage(bare, 7), audience=5, events=8)


def test_a_reader_that_stops_is_cut_or_not(tmp_path: Path) -> None:
    with Lab(tmp_path, Effort()).bare(size=300) as server:
        line = stall(server, SUBSCRIBE)
        assert not was_cut(line)
    assert was_cut(line)
    line.close()


def test_http_answers_are_read_to_their_end_however_they_come() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nDONE"
    events = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    events += b"7\r\ndata:1\n\r\n13\r\n\nid: 2\ndata:DONE\n\n\r\n0\r\n\r\n"
    for answer, messages in ((whole, 1), (events, 2)):
        for step in (1, 7, 1000):
            assert _read(answer, step).messages == messages


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nDONE", "a call failed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope", "an answer without b'DONE'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nDONEmore", "more than an answer"),
        (b"HTTP/1.1 200 OK\r\n\r\nDONE", "an answer without a length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nDO", "the server closed"),
    ],
)
def test_http_answers_that_are_wrong_are_noticed(answer: bytes, fault: str) -> None:
    with pytest.raises(Broken, match=fault):
        _read(answer, 1000)


def _read(answer: bytes, step: int) -> Exchange:
    """What the load generator makes of an answer that comes in pieces."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = Connection(listener.getsockname()[1], b"DONE")
        peer, _ = listener.accept()
        with closing(line), peer:
            line.start(b"")
            ended: list[Exchange] = []
            for at in range(0, len(answer), step):
                assert not ended
                peer.sendall(answer[at : at + step])
                ended = line.receive()
            peer.close()
            return (ended or line.receive())[0]


def test_go_says_what_is_missing(tmp_path: Path) -> None:
    for needed in ("dirname", "mkdir"):
        (tmp_path / needed).symlink_to(shutil.which(needed) or "")
    script = Path("tests/bench/go/build.sh")
    found = subprocess.run([script, tmp_path], capture_output=True, text=True, env={"PATH": str(tmp_path)}, check=False)
    assert found.returncode == os.EX_UNAVAILABLE
    assert "missing: go protoc" in found.stderr
    assert "apt-get install golang-go" in found.stderr


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(NotStarted, match="no such luck"),
        running(
            Program(
                name="luckless",
                command=python("-c", "raise SystemExit('no such luck')"),
                folder=tmp_path,
                port=free_port(),
            )
        ),
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


def test_nothing_but_the_kernel_s_version_is_told_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: "6.18.44-built-by-me")
    assert f"- system: Linux 6.18, Python {platform.python_version()}\n" in report.as_markdown([], Effort())


def test_the_published_document_explains_every_benchmark() -> None:
    before, _, _ = Path("docs/benchmarks.md").read_text("utf-8").partition(report.BEGIN)
    assert all(f"| `{name}` |" in before for name in CASES)


def test_the_published_document_has_the_marks() -> None:
    text = Path("docs/benchmarks.md").read_text("utf-8")
    assert text.index(report.BEGIN) < text.index(report.END)
