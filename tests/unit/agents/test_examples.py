"""Every example does what it says, in memory, and so does the built-in demo."""

import asyncio
import importlib.util
import runpy
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from a2a_server import demo
from a2a_server.agents import Agent, data_part, file_part, pb, tool_result_part
from a2a_server.agents.testing import run_turn
from a2a_server.ports.authenticator import Caller

EXAMPLES = Path(__file__).parents[3] / "examples"
AGENTS = ["booking", "echo", "files", "long_job", "streaming"]
CLIENTS = ["call", "webhook_receiver"]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agent_of(name: str) -> Agent:
    agent = load(name).agent
    assert isinstance(agent, Agent)
    return agent


def test_no_example_is_forgotten() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted([*AGENTS, *CLIENTS])
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert all(f"{name}.py" in readme for name in (*AGENTS, *CLIENTS))


@pytest.mark.parametrize("name", AGENTS)
def test_an_example_fits_on_a_screen_and_has_a_card(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) <= 60
    assert agent_of(name).card.skills


@pytest.mark.req("AGNT-01")
async def test_echo() -> None:
    assert (await run_turn(agent_of("echo"), "Hello!")).text == "Hello!"


async def test_streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("streaming")
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=_at_once))
    explained = await run_turn(module.agent, "rain")
    assert explained.text.startswith("You ask about rain. ")
    assert len(explained.events) > 10
    compared = await run_turn(module.agent, "rain snow", skill="compare")
    assert [artifact.name for artifact in compared.artifacts] == ["rain", "snow"]


async def test_booking() -> None:
    agent = agent_of("booking")
    record = await run_turn(agent, "A table, please.")
    for answer, question in (
        ("too many", "For how many guests?"),
        ("13", "For how many guests?"),
        ("4", "On which day?"),
        ("Friday", "Under which name?"),
    ):
        record = await run_turn(agent, answer, after=record)
        assert (record.state, record.says) == ("INPUT_REQUIRED", question)
    record = await run_turn(agent, "Ann", after=record)
    assert (record.state, record.data) == ("COMPLETED", [{"guests": "4", "day": "Friday", "name": "Ann"}])

    record = await run_turn(agent, "Another table, please.", context=record)
    record = await run_turn(agent, "2", after=record)
    record = await run_turn(agent, "Sunday", after=record)
    assert record.data == [{"guests": "2", "day": "Sunday", "name": "Ann"}]


async def test_booking_can_be_called_off() -> None:
    agent = agent_of("booking")
    asked = await run_turn(agent, "A table, please.")
    assert (await run_turn(agent, "Never mind", after=asked)).state == "REJECTED"


async def test_files() -> None:
    agent = agent_of("files")
    records = [{"name": "Ann", "age": "41"}, {"name": "Bob", "age": "7"}]
    to_json = await run_turn(agent, file_part(b"name,age\nAnn,41\nBob,7\n", filename="people.csv"))
    assert (to_json.data, to_json.artifacts[0].name) == ([records], "people.csv")
    to_csv = await run_turn(agent, data_part(records))
    assert to_csv.artifacts[0].parts[0].raw == b"age,name\r\n41,Ann\r\n7,Bob\r\n"
    assert (await run_turn(agent, "hm")).state == "INPUT_REQUIRED"


async def test_a_long_job_goes_on_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("long_job")
    monkeypatch.setattr(module, "STEP", 0)
    whole = await run_turn(module.agent, "3")
    assert (whole.state, whole.text) == ("COMPLETED", "The field is 3 metres long.")
    assert [event.status_update.metadata["progress"] for event in whole.events[:3]] == [1 / 3, 2 / 3, 1]
    crashed = await run_turn(module.agent, "3", cancel_after=2)
    again = await run_turn(module.agent, again=crashed)
    said = [event.status_update.status.message.parts[0].text for event in again.events[:2]]
    assert said == ["Interrupted at metre 2; going on from there.", "Metre 3 of 3."]


async def test_a_long_job_says_where_it_was_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("long_job")
    monkeypatch.setattr(module, "STEP", 0)
    record = await run_turn(module.agent, "9", cancel_after=2, cancel_metadata={"reason": "rain"})
    assert (record.canceled, record.text) == (True, "Stopped at metre 2: rain.")
    assert (await run_turn(module.agent, "far")).state == "REJECTED"


def test_the_caller_explains_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["call.py", "--help"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(EXAMPLES / "call.py"), run_name="__main__")
    assert caught.value.code == 0
    assert "--stream" in capsys.readouterr().out


async def _at_once(delay: float) -> None:
    """No test waits for a model that is none."""


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_BEAT", 0)


async def test_it_echoes_unless_told_otherwise() -> None:
    assert (await run_turn(demo.agent, "Hello!")).text == "Hello!"
    assert (await run_turn(demo.agent, data_part(1))).text == "(no text)"


async def test_a_story_streams() -> None:
    record = await run_turn(demo.agent, "a lighthouse", skill="story")
    assert record.text.startswith("Once there was a lighthouse.")
    assert len(record.events) > 20


async def test_a_booking_takes_several_turns() -> None:
    record = await run_turn(demo.agent, "to Lisbon", skill="booking")
    assert record.says == "How many seats to Lisbon?"
    record = await run_turn(demo.agent, "some", after=record)
    assert record.says == "A number, please: how many seats?"
    sure = await run_turn(demo.agent, "2", after=record)
    assert sure.state == "INPUT_REQUIRED"
    booked = await run_turn(demo.agent, "Yes!", after=sure)
    assert (booked.state, booked.data) == ("COMPLETED", [{"to": "Lisbon", "seats": 2}])
    assert (await run_turn(demo.agent, "no", after=sure)).state == "REJECTED"


async def test_parts_are_described_in_what_the_client_accepts() -> None:
    parts = [file_part(b"12345678", filename="a.bin"), data_part({"n": 1})]
    record = await run_turn(demo.agent, parts, skill="inspect")
    [report] = record.data
    assert [part["kind"] for part in report["parts"]] == ["raw", "data"]
    assert report["data"] == {"n": 1}
    assert [artifact.name for artifact in record.artifacts] == ["report", "picture"]
    plain = await run_turn(demo.agent, parts, skill="inspect", accepted_output_modes=["text/plain"])
    assert plain.text.startswith("raw: ")
    assert len(plain.artifacts) == 1


async def test_a_long_run_reports_and_goes_on_after_a_crash() -> None:
    record = await run_turn(demo.agent, "3", skill="run")
    assert (record.state, record.text) == ("COMPLETED", "lap 1\nlap 2\nlap 3\n3 laps done.")
    assert [kind for kind, _ in record.internals] == ["internal:iteration"] * 3
    crashed = await run_turn(demo.agent, "3", skill="run", cancel_after=3)
    again = await run_turn(demo.agent, again=crashed)
    assert again.artifacts[0].artifact_id == "task-1"
    assert again.text.startswith("lap 1\nlap 2\nlap 3\n")


async def test_a_canceled_run_leaves_a_note() -> None:
    record = await run_turn(demo.agent, "9", skill="run", cancel_after=3)
    assert record.canceled
    assert record.artifacts[-1].parts[0].text.startswith("Stopped after lap ")


async def test_small_talk_makes_no_task() -> None:
    record = await run_turn(demo.agent, "Hi", skill="chat")
    assert record.message is not None
    assert record.says == "You said “Hi”. I say: how nice."


async def test_the_vault_wants_a_token() -> None:
    asked = await run_turn(demo.agent, "open", skill="vault")
    assert asked.state == "AUTH_REQUIRED"
    assert asked.asked is not None
    assert asked.asked.sensitive
    assert (await run_turn(demo.agent, "let-me-in", after=asked)).text == "The vault holds a paper clip."
    told = tool_result_part(asked.asked.request_id, "let-me-in")
    assert (await run_turn(demo.agent, told, after=asked)).text == "The vault holds a paper clip."
    assert (await run_turn(demo.agent, "please", after=asked)).state == "FAILED"


CSV = "name,age\nAnn,41\n"
MARKDOWN = "# People\n\n| name | age |\n|---|---|\n| Ann | 41 |\n"
TABLES = [
    file_part(CSV.encode(), filename="people.csv"),
    pb.Part(text=CSV, media_type="text/csv"),
    file_part(MARKDOWN.encode(), filename="people.md", media_type="text/markdown"),
    pb.Part(text=MARKDOWN, media_type="text/markdown"),
]


@pytest.mark.req("CONF-80")
@pytest.mark.parametrize("name", [*AGENTS, "demo"])
@pytest.mark.parametrize("part", [*TABLES, data_part({"name": "Ann"})], ids=lambda part: part.WhichOneof("content"))
async def test_every_agent_takes_files_data_and_markdown(
    name: str, part: pb.Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "sleep", _at_once)
    agent = demo.agent if name == "demo" else agent_of(name)
    assert (await run_turn(agent, part)).state == {"booking": "INPUT_REQUIRED", "long_job": "REJECTED"}.get(
        name, "COMPLETED"
    )
    if name == "demo":
        assert (await run_turn(agent, part, skill="inspect")).state == "COMPLETED"


@pytest.mark.parametrize("part", TABLES)
async def test_tables_are_really_read(part: pb.Part) -> None:
    assert (await run_turn(agent_of("files"), part)).data == [[{"name": "Ann", "age": "41"}]]


async def test_records_become_a_table() -> None:
    for records in ({"name": "Ann"}, [{"name": "Ann"}]):
        made = await run_turn(agent_of("files"), data_part(records))
        assert made.artifacts[0].parts[0].raw == b"name\r\nAnn\r\n"
    assert (await run_turn(agent_of("files"), data_part([1]))).state == "INPUT_REQUIRED"


async def test_mishaps() -> None:
    assert (await run_turn(demo.agent, "fail", skill="mishap")).state == "FAILED"
    assert (await run_turn(demo.agent, "reject", skill="mishap")).state == "REJECTED"
    with pytest.raises(RuntimeError):
        await run_turn(demo.agent, "crash", skill="mishap")


def test_callers_that_may_see_more_do() -> None:
    public = demo.agent.card
    card = demo.agent.extended_card(Caller("ann", authenticated=True, extended_card=True))
    assert card is not None
    assert card.description == f"{public.description} You are known here as ann."
    assert card.skills[-1].examples[-1] == "crash"
    assert demo.agent.extended_card(Caller("bob", authenticated=True)) is None
    assert demo.agent.card == public


async def test_nothing_is_left_running() -> None:
    await run_turn(demo.agent, "x", skill="story")
    assert asyncio.all_tasks() == {asyncio.current_task()}
