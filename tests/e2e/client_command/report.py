"""Writes the report that the A2A CLI specification asks for: runs the suite, and notes what it measured (spec: CLI-77).

`make cli-report` writes docs/command-line-report.yaml and docs/command-line-report.md.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from a2a_server import __version__
from tests.e2e.client_command.registry import (
    DEFAULTS,
    ERROR_CODES,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PREFIX,
    REGISTRY,
    REVISION,
    VERSION,
    RegistryRow,
)

ROOT = Path(__file__).parents[3]
YAML_FILE, TEXT_FILE = ROOT / "docs/command-line-report.yaml", ROOT / "docs/command-line-report.md"
HERE = Path(__file__).parent.relative_to(ROOT)
AGENT = f"the scripted agent of {HERE}, over HTTP+JSON, JSON-RPC and gRPC on loopback"
RULE = ("pass", "partial", "fail", "not_measured", "na")


class Findings:
    """Collects what the tests of each entry came to."""

    def __init__(self) -> None:
        self.results: dict[str, dict[str, bool]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            for name, value in report.user_properties:
                for entry in str(value).split() if name == "registry" else ():
                    self.results[entry][report.nodeid] = report.passed


def status_of(name: str, results: Mapping[str, bool]) -> tuple[str, str]:
    """Return the status, and the note that every status but pass needs."""
    if name in NOT_APPLICABLE:
        return "na", NOT_APPLICABLE[name]
    if not results:
        return "not_measured", NOT_MEASURED.get(name, "No test has run.")
    failed = [test for test, passed in results.items() if not passed]
    if failed:
        return ("partial" if len(failed) < len(results) else "fail"), f"Failed: {', '.join(failed)}"
    return "pass", ""


def requirement_of(name: str, row: RegistryRow, results: Mapping[str, bool]) -> dict[str, Any]:
    status, note = status_of(name, results)
    evidence = sorted({test.partition("[")[0].removeprefix(f"{HERE}/") for test in results})
    return {
        "tier": row.tier,
        "area": RegistryRow.area(name),
        "spec": row.section,
        "requirement": row.requirement,
        "status": status,
        "note": note,
        "evidence": evidence,
    }


def report_of(results: Mapping[str, Mapping[str, bool]], date: str) -> dict[str, Any]:
    requirements = {PREFIX + name: requirement_of(name, row, results.get(name, {})) for name, row in REGISTRY.items()}
    summary = summary_of(list(requirements.values()))
    as_shipped = requirements[f"{PREFIX}DEFAULT_001"]["status"] == "pass"
    emitted = requirements[f"{PREFIX}OUT_004"]["status"] == "pass"
    claimed = max((tier for tier in (1, 2, 3) if summary[f"tier_{tier}"]["satisfied"]), default=0)
    return {
        "report": {
            "tool": "a2ad",
            "tool_version": __version__,
            "language": "Python",
            "repository": "a2ad",
            "maintainer": "the a2ad project",
            "report_date": date,
            "spec_version": VERSION,
            "spec_revision": REVISION,
            "a2a_versions": ["1.0", "0.3"],
            "agent_tested": AGENT,
            "agent_tck_conformant": "unknown",
            "transports_covered": ["HTTP+JSON", "JSON-RPC", "gRPC"],
            "tier_claimed": claimed,
        },
        "summary": summary,
        "requirements": requirements,
        "default_001_breakdown": {
            name: {"shipped": as_shipped, "overridable": as_shipped, "note": f"Changed by {flag}."}
            for name, flag in DEFAULTS.items()
        },
        "error_codes": {
            f"A2ACLI_ERR_{name}": {"emitted": emitted, "note": "Provoked by the suite."} for name in ERROR_CODES
        },
        "attestation": {
            "reported_by": "the a2ad project",
            "date": date,
            "statement": "Measured by the suite with the real command in processes of its own.",
        },
    }


def summary_of(requirements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A tier is satisfied if it and those below have nothing but pass and na."""
    summary, satisfied = {}, True
    for tier in (1, 2, 3):
        found = [it["status"] for it in requirements if it["tier"] == tier]
        counts = {status: found.count(status) for status in RULE}
        satisfied = satisfied and counts["pass"] + counts["na"] == len(found)
        summary[f"tier_{tier}"] = {"total": len(found), **counts, "satisfied": satisfied}
    return summary


def text_of(report: Mapping[str, Any]) -> str:
    head, summary = report["report"], report["summary"]
    lines = [
        "# Report on the command line",
        "",
        f"How `a2ad` {head['tool_version']} meets the A2A CLI specification {head['spec_version']}, revision",
        f"{head['spec_revision']}, measured on {head['report_date']}. The same as data:",
        "[command-line-report.yaml](command-line-report.yaml).",
        "",
        f"**Tier claimed: {head['tier_claimed']}.** `make cli-report` repeats the measurement. It runs the command in",
        f"processes of its own against {head['agent_tested']}; a test is named beside each entry.",
        "",
        "| tier | entries | pass | partial | fail | not measured | not applicable | satisfied |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for tier in (1, 2, 3):
        it = summary[f"tier_{tier}"]
        cells = [tier, it["total"], *(it[status] for status in RULE), "yes" if it["satisfied"] else "no"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for tier in (1, 2, 3):
        lines += [
            "",
            f"## Tier {tier}",
            "",
            "| id | § | requirement | status | note or evidence |",
            "|---|---|---|---|---|",
        ]
        for name, it in report["requirements"].items():
            if it["tier"] == tier:
                why = it["note"] or ", ".join(test.partition("::")[2] for test in it["evidence"][:2])
                section = it["spec"].removeprefix("§")
                lines.append(f"| `{name}` | {section} | {it['requirement']} | {it['status']} | {why} |")
    lines += ["", "## Gaps", ""]
    gaps = [(name, it) for name, it in report["requirements"].items() if it["status"] not in {"pass", "na"}]
    lines += [f"- `{name}`: {it['note']}" for name, it in gaps] or ["None."]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    findings = Findings()
    code = pytest.main(["-q", str(HERE), *arguments], plugins=[findings])
    report = report_of(findings.results, datetime.now(UTC).date().isoformat())
    yaml = YAML()
    yaml.width = 110
    with YAML_FILE.open("w", encoding="utf-8") as file:
        yaml.dump(report, file)
    TEXT_FILE.write_text(text_of(report), "utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
