"""What the documents have in common: their links lead somewhere, and their commands are commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from google.rpc.code_pb2 import Code

from a2a_server.cli.command_line import main
from a2a_server.protocol.errors import Reason
from a2a_server.settings import Settings
from a2a_server.settings.sources import PREFIX, known

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "examples/README.md")),
    *sorted(ROOT.glob("docs/*.md")),
]
UNITS = {"GiB": 2**30, "KiB": 1024, "MiB": 1024**2}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What can be linked to: headings, spelled as usual."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shell(page: Path) -> Iterator[list[str]]:
    """Every command of every shell block, as words."""
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            try:
                yield shlex.split(line, comments=True)
            except ValueError:  # it goes on below
                continue


@every_page
def test_links_lead_to_pages_and_headings_that_there_are(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


@every_page
def test_files_that_pages_name_exist(page: Path) -> None:
    """Below the project's folder, or in a2a_server/ as decisions name them."""
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|sql|sh|toml|yml|proto))`", prose(page))
    assert not [name for name in named if not (ROOT / name).exists() and not (ROOT / "a2a_server" / name).exists()]


@every_page
def test_blocks_say_what_they_are(page: Path) -> None:
    fences = re.findall(r"^```(.*)$", page.read_text("utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= {"sh", "python", "json", "toml", "http", "dockerfile", "text"}
    assert set(fences[1::2]) <= {""}


@every_page
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in shell(page):
        while words and re.fullmatch(rf"{PREFIX}\w+=.*", words[0]):
            name = words.pop(0).partition("=")[0]
            assert name in {PREFIX + each.replace(".", "__").upper() for each in known()}
        if words[:1] == ["a2ad"]:
            check(main, words[1:])
        elif words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), words


def check(command: click.Command, words: list[str]) -> None:
    """Walk down to the command that is meant; what is an option there must be one."""
    options = {name for option in command.get_params(click.Context(command)) for name in (*option.opts, "--version")}
    for number, word in enumerate(words):
        if word.startswith("--"):
            assert word.partition("=")[0] in options, words
        elif word in (">", "|"):
            break
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            assert found is not None, words
            return check(found, words[number + 1 :])
    return None


def rows(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """What the rows of tables say that begin with settings: their names, and the defaults in the cell behind them."""
    names = set(known())
    for first, second in re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \| ([^|]+) \|", page.read_text("utf-8"), re.MULTILINE):
        settings = re.findall(r"`([\w.]+)`", first)
        if names.issuperset(settings):
            yield settings, second.replace("`", "").split(", ") if len(settings) > 1 else [second]


def number(text: str) -> float | None:
    """A number as people write it."""
    digits, _, unit = text.strip("` ").partition(" ")
    plain = digits.replace(",", "")
    return float(plain) * UNITS.get(unit, 1) if plain.replace(".", "").isdecimal() else None


@pytest.mark.parametrize("name", ["docs/http.md", "docs/operating.md", "docs/webhooks.md"])
def test_numbers_in_tables_are_the_defaults_of_the_settings_beside_them(name: str) -> None:
    found = 0
    for settings, cells in rows(ROOT / name):
        for setting, cell in zip(settings, cells, strict=False):
            if (told := number(cell)) is not None:
                value: object = Settings()
                for step in setting.split("."):
                    value = getattr(value, step)
                if isinstance(value, int | float):
                    assert told == value, setting
                    found += 1
    assert found > 5


def test_every_limit_and_option_of_doors_is_among_the_bounds_or_no_bound() -> None:
    _, _, rest = (ROOT / "docs/operating.md").read_text("utf-8").partition("\n## Bounds\n")
    told = set(re.findall(r"`((?:limits|streams)\.\w+)`", rest.partition("\n## ")[0]))
    others = {"limits.idempotency_window", "limits.idempotency_key_window", "limits.accept_unknown_contexts"}
    assert told == {setting for setting in known() if setting.startswith(("limits.", "streams."))} - others


def test_events_that_deserve_an_alert_are_logged() -> None:
    _, _, rest = (ROOT / "docs/operating.md").read_text("utf-8").partition("\n## Logs\n")
    alerts = re.findall(
        r"`([a-z]+\.[a-z_]+)`", "".join(re.findall(r"^\| (.*?) \|", rest.partition("\n## ")[0], re.MULTILINE))
    )
    source = "".join(
        path.read_text("utf-8")
        for folder in ("a2a_server", "gateway/a2a_gateway")
        for path in ROOT.glob(f"{folder}/**/*.py")
    )
    assert "store.unavailable" in alerts
    assert not [event for event in alerts if f'"{event}"' not in source]


def test_clients_are_told_every_error_with_its_numbers() -> None:
    text = (ROOT / "docs/clients.md").read_text("utf-8")
    calls = re.findall(r"^\| `([A-Z_]+)` \| ([A-Z_]+) \| (\d+) \| (-\d+) \|", text, re.MULTILINE)
    before = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \| (-\d+)? ?\|", text, re.MULTILINE)
    assert sorted(name for name, *_ in (*calls, *before)) == sorted(reason.name for reason in Reason)
    for name, status, http, jsonrpc in calls:
        reason = Reason[name]
        assert (Code.Name(reason.status()), reason.http(), reason.jsonrpc_code) == (status, int(http), int(jsonrpc))
    for name, http, jsonrpc in before:
        assert (Reason[name].http(), Reason[name].jsonrpc_code) == (
            int(http),
            int(jsonrpc or Reason[name].jsonrpc_code),
        )
