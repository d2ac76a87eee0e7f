"""The report is complete and claims nothing that no test measures; help is the same as the commands (spec: CLI-77)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from tests.e2e.client_command.command_line import CommandRunner
from tests.e2e.client_command.registry import NOT_APPLICABLE, NOT_MEASURED, PREFIX, REGISTRY, REVISION
from tests.e2e.client_command.report import ROOT, TEXT_FILE, YAML_FILE, report_of, text_of
from tests.support.house import a2ad as main

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def report() -> Any:
    return YAML(typ="safe").load(YAML_FILE.read_text("utf-8"))


def marked() -> set[str]:
    """Every entry that a test measures."""
    found: set[str] = set()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "registry":
                found |= {str(ast.literal_eval(argument)) for argument in node.args}
    return found


@pytest.mark.req("CLI-77")
def test_the_registry_is_complete_and_measured() -> None:
    tiers = [row.tier for row in REGISTRY.values()]
    assert [tiers.count(tier) for tier in (1, 2, 3)] == [39, 15, 12]
    assert marked() | set(NOT_APPLICABLE) | set(NOT_MEASURED) == set(REGISTRY)
    assert not marked() & (set(NOT_APPLICABLE) | set(NOT_MEASURED))


@pytest.mark.req("CLI-77", "OPER-09")
def test_the_published_report_covers_every_entry_and_claims_what_it_shows(report: Any) -> None:
    assert list(report["requirements"]) == [PREFIX + name for name in REGISTRY]
    for name, it in report["requirements"].items():
        assert it["requirement"] == REGISTRY[name.removeprefix(PREFIX)].requirement
        assert bool(it["note"]) == (it["status"] != "pass"), name
        assert it["status"] != "pass" or it["evidence"], name
    head = report["report"]
    assert (head["spec_version"], str(head["spec_revision"]), head["tier_claimed"]) == ("0.2", REVISION, 2)
    assert all(report["summary"][f"tier_{tier}"]["satisfied"] for tier in (1, 2))
    assert not report["summary"]["tier_3"]["satisfied"]
    assert len(report["error_codes"]) == 8
    assert "127.0.0.1" not in YAML_FILE.read_text("utf-8") + TEXT_FILE.read_text("utf-8")
    assert text_of(report) == TEXT_FILE.read_text("utf-8"), "both were written together"


@pytest.mark.req("CLI-77")
def test_what_failed_or_was_not_measured_counts_against_a_tier() -> None:
    good = {name: {"a.py::test": True} for name in REGISTRY}
    assert report_of(good, "2026-01-01")["report"]["tier_claimed"] == 3
    cases: list[dict[str, dict[str, bool]]] = [{"SEND_001": {"a.py::test": False}}, {"SEND_001": {}}]
    for wrong in cases:
        assert report_of(good | wrong, "2026-01-01")["report"]["tier_claimed"] == 0
    mixed = report_of(good | {"PUSH_001": {"a.py::one": True, "a.py::two": False}}, "2026-01-01")
    assert (mixed["requirements"]["A2ACLI_PUSH_001"]["status"], mixed["report"]["tier_claimed"]) == ("partial", 1)


@pytest.mark.req("CLI-51")
def test_no_skill_is_shipped() -> None:
    assert not [path for path in (ROOT / "a2a_server").rglob("*") if path.name == "SKILL.md"]


@pytest.mark.req("CLI-05")
def test_every_command_is_listed_with_its_own_words(a2ad: CommandRunner) -> None:
    context = click.Context(main)
    shown = a2ad.run("--help").out
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None, name
        assert main.summary(name) == command.get_short_help_str(limit=200)
        assert f"\n  {name} " in shown
    done = a2ad.run("-o", "json", "serve")
    assert (done.code, done.error["code"]) == (2, "A2ACLI_ERR_USAGE"), "an option of the client"


@pytest.mark.req("CLI-45", "CLI-21")
def test_the_guide_warns_of_credentials_in_flags() -> None:
    guide = (ROOT / "docs/command-line.md").read_text("utf-8")
    for word in ("A2ACLI_BEARER", "A2ACLI_API_KEY", "process table", "shell's history"):
        assert word in guide
