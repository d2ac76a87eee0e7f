"""Agents that cannot be served: their authors are told what is wrong, and where in their own code (spec: OPER-05)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.recognition import OpenedAgent
from a2a_server.cli.configuration import Unusable, named, settings_from
from a2a_server.cli.loading import load_agent, load_agents
from a2a_server.ports.agent import AgentPort
from a2a_server.settings import Settings

AGENT = """
from a2a_server.agents import Agent

agent = Agent(name="A", description="Does something.", version="1")
"""
SKILL = '@agent.skill(id="x", tags=["text"])\nasync def x(turn): ...\n'
NOBODY = 65534


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the test's own, forgotten when it is over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("ag", "inner"):
        monkeypatch.setitem(sys.modules, name, None)  # which is undone in the end, unlike the import
        del sys.modules[name]


def fault(text: str, spec: str = "ag.py") -> str:
    """What an agent's file is refused with."""
    Path("ag.py").write_text(text)
    with pytest.raises(Unusable) as refused:
        load_agent(spec)
    assert refused.value.exit_code == 2
    return refused.value.message.replace(os.getcwd(), "…")  # noqa: PTH109 - a text


def loaded(spec: str, card: pb.AgentCard | None = None) -> AgentPort:
    """An agent that is there at once."""
    agent = load_agent(spec, card)
    assert not isinstance(agent, OpenedAgent)
    return agent


def test_an_agent_is_found_in_a_file_and_in_a_module() -> None:
    Path("ag.py").write_text(AGENT + SKILL)
    for spec in ("ag.py", "ag", "ag:agent"):
        assert loaded(spec).card.name == "A"


def test_an_agent_without_skills_is_told_how_to_get_one() -> None:
    said = "agent = 'ag.py': Agent 'A' has no skill: decorate a function with @agent.skill(…)."
    assert fault(AGENT) == said


def test_a_class_is_no_agent() -> None:
    made = "make one: agent = Agent(name=…, description=…, version=…)"
    assert fault(AGENT + "agent = Agent\n") == f"agent = 'ag.py': agent is the class Agent, not an agent; {made}"
    own = "class Own(Agent):\n    def __init__(self, model):\n        pass\n"
    assert fault(AGENT + own, "ag.py:Own").endswith("make one: Own = Own(model=…)")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('@agent.skill(id="x")\nasync def x(turn): ...\n', 6, "ValueError: Skill 'x': pass tags=[…] with at least one"),
        ('@agent.skill(id="x", tags=["t"])\ndef x(turn): ...\n', 6, "TypeError: Skill 'x': write `async def`"),
        ('raise RuntimeError("my own fault")\n', 6, "RuntimeError: my own fault"),
        ("import nothing_there\n", 6, "ModuleNotFoundError: No module named 'nothing_there'"),
        ("agent = (\n", 6, "SyntaxError: '(' was never closed"),
    ],
)
@pytest.mark.parametrize("spec", ["ag.py", "ag"])
def test_a_fault_is_shown_in_the_author_s_own_line(text: str, line: int, said: str, spec: str) -> None:
    first, second, *_, last = fault(f"{AGENT}\n{text}", spec).splitlines()
    assert first == f"agent: {spec} cannot be imported"
    assert second.startswith(f'  File "…/ag.py", line {line}')
    assert said in last


def test_a_fault_in_what_a_file_imports_is_shown_with_both() -> None:
    Path("inner.py").write_text('def fail():\n    raise RuntimeError("inside")\n')
    lines = fault("import inner\n\ninner.fail()\n").splitlines()
    assert [line for line in lines if "File" in line] == [
        '  File "…/ag.py", line 3, in <module>',
        '  File "…/inner.py", line 2, in fail',
    ]


def test_a_card_of_the_author_s_own_that_fails_is_shown_where_it_does() -> None:
    text = "class Own:\n    @property\n    def card(self):\n        return {}['name']\n\nagent = Own()\n"
    first, second, *_, last = fault(text).splitlines()
    assert (first, second) == ("agent = 'ag.py'", '  File "…/ag.py", line 4, in card')
    assert last == "KeyError: 'name'"


@contextmanager
def anybody() -> Iterator[None]:
    """Without the rights of root, who may read everything."""
    before = os.geteuid()
    os.seteuid(before or NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = Path("locked")
    folder.mkdir()
    (folder / "ag.py").write_text(AGENT + SKILL)
    for place in (tmp_path, folder):
        place.chmod(0o755)
    for place in (folder / "ag.py", folder):
        place.chmod(0o000)
        with anybody(), pytest.raises(Unusable) as refused:
            load_agent("locked/ag.py")
        assert refused.value.message == "agent: 'locked/ag.py' cannot be read: Permission denied"
    Path("folder.py").mkdir()
    with pytest.raises(Unusable) as refused:
        load_agent("folder.py")
    assert refused.value.message == "agent: 'folder.py' cannot be read: Is a directory"
    folder.chmod(0o700)


def test_a_file_that_is_not_there_is_named_by_its_whole_path(tmp_path: Path) -> None:
    with pytest.raises(Unusable) as refused:
        load_agent("none.py")
    assert refused.value.message == f"agent: no file {str(tmp_path / 'none.py')!r}"


EXECUTOR = """
from a2a.server.agent_execution import AgentExecutor

class HelloAgentExecutor(AgentExecutor):
    \"\"\"Says hello.

    To everybody.
    \"\"\"
    def __init__(self, model="small"):
        self.model = model

    async def execute(self, context, event_queue): ...
    async def cancel(self, context, event_queue): ...
"""
MAKE = "def make():\n    return HelloAgentExecutor('large')\n"
OWN_CARD = "from a2a.types import AgentCard\ncard = AgentCard(name='Mine', description='d', version='2')\n"


@pytest.mark.req("AGNT-02")
@pytest.mark.parametrize("spec", ["ag.py", "ag.py:HelloAgentExecutor", "ag:made", "ag:make"])
def test_an_executor_of_the_sdk_is_served_as_instance_class_or_factory(spec: str) -> None:
    Path("ag.py").write_text(EXECUTOR + MAKE + ("made = make()\n" if "made" in spec else ""))
    card = loaded(spec).card
    assert (card.name, card.description, card.version) == ("Hello", "Says hello.", "1.0.0")
    assert [(skill.id, list(skill.tags)) for skill in card.skills] == [("default", ["agent"])]


@pytest.mark.req("AGNT-02")
def test_the_card_of_an_executor_is_its_own_its_modules_or_a_files() -> None:
    Path("ag.py").write_text(EXECUTOR + OWN_CARD)
    assert loaded("ag:HelloAgentExecutor").card.name == "Mine"
    given = pb.AgentCard(name="Given", description="d", version="3")
    assert loaded("ag:HelloAgentExecutor", given).card == given


def test_a_factory_may_make_an_agent() -> None:
    Path("ag.py").write_text(AGENT + SKILL + "def make():\n    return agent\n")
    assert loaded("ag:make").card.name == "A"


@pytest.mark.parametrize(
    ("more", "spec", "said"),
    [
        (
            "class Needy(HelloAgentExecutor):\n    def __init__(self, key):\n        pass\n",
            "ag.py:Needy",
            "agent = 'ag.py:Needy': Needy(key=…) needs arguments; name a function that gives them",
        ),
        ("def make(key): ...\n", "ag.py:make", "agent = 'ag.py:make': make(key=…) needs arguments"),
        ("def make():\n    return 5\n", "ag.py:make", "agent = 'ag.py:make': make is a int, not an agent; it lacks"),
        ("def make():\n    raise ValueError('no')\n", "ag.py:make", "agent = 'ag.py:make'\n  File \"…/ag.py\""),
        ("a, b = HelloAgentExecutor(), HelloAgentExecutor()\n", "ag.py", "agent = 'ag.py': ag (…/ag.py) has no"),
    ],
)
def test_what_makes_no_executor_is_told_why(more: str, spec: str, said: str) -> None:
    assert fault(EXECUTOR + more, spec).startswith(said)


GRAPH = """
from langgraph.graph import START, MessagesState, StateGraph

async def hello(state): ...

graph = StateGraph(MessagesState).add_node(hello).add_edge(START, "hello").compile(name="Greeter")
"""
PYDANTIC_AI = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(), name="Tester")
"""


@pytest.mark.req("AGNT-08")
@pytest.mark.parametrize(("text", "spec", "name"), [(GRAPH, "ag.py", "Greeter"), (PYDANTIC_AI, "ag:agent", "Tester")])
def test_an_agent_of_another_library_is_recognised_by_its_type(text: str, spec: str, name: str) -> None:
    Path("ag.py").write_text(text)
    assert loaded(spec).card.name == name
    given = pb.AgentCard(name="Given", description="d", version="3", skills=[pb.AgentSkill(id="x", tags=["y"])])
    assert loaded(spec, given).card == given


def test_what_another_library_s_agent_lacks_is_told() -> None:
    more = "agent = Agent(TestModel(), name='Tester', deps_type=int)\n"
    assert fault(PYDANTIC_AI + more).startswith("agent = 'ag.py': Tester needs deps of type int, which a server cannot")


LATE = """
from contextlib import asynccontextmanager

opened = []

@asynccontextmanager
async def make():
    opened.append(True)
    yield agent
    opened.clear()
"""


def made_late(text: str) -> OpenedAgent:
    Path("ag.py").write_text(text)
    late = load_agent("ag.py:make")
    assert isinstance(late, OpenedAgent)
    return late


@pytest.mark.req("AGNT-07")
@pytest.mark.parametrize("text", [AGENT + SKILL, PYDANTIC_AI])
async def test_an_async_context_manager_makes_the_agent_when_the_server_starts(text: str) -> None:
    late = made_late(text + LATE)
    opened = sys.modules["ag"].opened
    assert opened == []
    async with late.living() as agent:
        assert (agent.card.name, opened) == (loaded("ag.py").card.name, [True])
    assert opened == []


async def test_one_that_makes_no_agent_is_told_what_it_made() -> None:
    late = made_late(LATE.replace("yield agent", "yield 5"))
    with pytest.raises(TypeError, match="a int was made, which is not an agent"):
        async with late.living():
            pass


def test_of_several_agents_the_one_that_adk_calls_root_is_served() -> None:
    assert made("root_agent = agent\ndel agent\nother = Agent(TestModel(), name='Other')\n").card.name == "Tester"


def made(more: str) -> AgentPort:
    Path("ag.py").write_text(PYDANTIC_AI + more)
    return loaded("ag.py")


def test_adk_without_what_it_needs_for_a2a_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    adk = ModuleType("google.adk.agents")
    vars(adk)["BaseAgent"] = type("BaseAgent", (), {})
    monkeypatch.setitem(sys.modules, "google.adk.agents", adk)
    said = fault("import sys\nroot_agent = sys.modules['google.adk.agents'].BaseAgent()\n")
    assert said.startswith("agent = 'ag.py': ADK cannot serve A2A here (")
    assert said.endswith("); pip install 'a2ad[adk]'")


@pytest.mark.req("AGNT-08")
def test_no_library_is_imported_unless_the_author_has() -> None:
    libraries = ("a2a.server", "google.adk", "langgraph", "langchain_core", "pydantic_ai")
    code = f"import sys, a2a_server.cli.process; print([name for name in {libraries} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


# -- several agents


@pytest.mark.req("DOOR-06")
def test_a_tenant_is_named_after_the_variable_or_after_the_file_or_module() -> None:
    told = named(
        ["a/sea.py", "b/land.py:agent", "crew.py:cook", "town.people", "town.agents:agent", "x.py:all.of.them"]
    )
    assert [table["tenant"] for table in told["agents"]] == ["sea", "land", "cook", "people", "agents", "them"]
    assert [table["agent"] for table in told["agents"]][:3] == ["a/sea.py", "b/land.py:agent", "crew.py:cook"]
    with pytest.raises(Unusable, match=r"'a/sea.py' and 'b.sea' would both be the tenant 'sea'"):
        named(["a/sea.py", "b.sea"])


@pytest.mark.req("DOOR-06")
def test_agents_on_the_command_line_replace_those_of_the_file() -> None:
    Path("a2ad.toml").write_text(
        'directory = "All"\n[[agents]]\ntenant = "one"\nagent = "one.py"\n[[agents]]\ntenant = "two"\n', "utf-8"
    )
    assert [table.tenant for table in settings_from(named([]), None).settings.agents] == ["one", "two"]
    alone = settings_from(named(["x.py"]), None).settings
    assert (alone.agent, alone.agents, alone.directory) == ("x.py", (), "")
    several = settings_from(named(["x.py", "y.py"]), None).settings
    assert ([table.tenant for table in several.agents], several.directory) == (["x", "y"], "All")


@pytest.mark.req("DOOR-06")
def test_an_agent_that_cannot_be_loaded_is_named() -> None:
    Path("ag.py").write_text(AGENT + SKILL, "utf-8")
    Path("a2ad.toml").write_text('[[agents]]\ntenant = "one"\nagent = "ag"\n[[agents]]\ntenant = "two"\n', "utf-8")
    with pytest.raises(Unusable, match=r"agents.1.agent: is missing; name it as MODULE:NAME"):
        load_agents(settings_from({}, None).settings)
    with pytest.raises(Unusable, match=r"agents.1 \(tenant 'b'\): agent = 'ag:b': ag .* has no 'b'"):
        load_agents(settings_from(named(["ag", "ag:b"]), None).settings)
    both = load_agents(Settings(agents=[{"tenant": tenant, "agent": "ag"} for tenant in ("one", "two")]))
    assert isinstance(both, dict)
    assert both["one"] is both["two"]
