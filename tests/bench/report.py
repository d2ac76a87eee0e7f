"""Rows as a table for people, as JSON for programs, and into a document between its marks."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.lab import Effort
from tests.bench.rows import ALONE, BARE, GO, GROWTH, NETWORK, NOTIFIED, OLDER, SDK, STORE, TRUST, WORKERS, Row

BEGIN, END = "<!-- results -->", "<!-- /results -->"

_TIMES, _TO = "×", "–"  # noqa: RUF001 - as tables are printed

_PACKAGES = ("a2a-sdk", "aiohttp", "grpcio", "httptools", "orjson", "protobuf", "uvicorn", "uvloop")
_COLUMNS = {
    SDK: ("a2ad", "a2a-sdk", "times better"),
    GO: ("a2ad", "grpc-gateway", "times better"),
    STORE: ("a2ad", "the loop", "share"),
    WORKERS: ("two", "one", "times better"),
    NETWORK: ("through it", "directly", "share"),
    BARE: ("a2ad", "prebuilt bytes", "times dearer"),
    OLDER: ("0.3", "1.0", "times dearer"),
    TRUST: ("with", "without", "times dearer"),
    GROWTH: ("large", "small", "times dearer"),
    NOTIFIED: ("with", "without", "share"),
    ALONE: ("a2ad",),
}


def machine(home: Path = Path()) -> dict[str, str]:
    """Where and with what it was measured; `home` holds our server."""
    compiled = sum(1 for package in ("a2a_server", "a2a_gateway") for _ in (home / package).rglob("*.so"))
    packages = ", ".join(
        f"{name} {version(name)}"
        for name in ("a2a-sdk", "aiohttp", "grpcio", "httptools", "orjson", "protobuf", "uvicorn", "uvloop")
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": f"{_processor()}, {os.cpu_count()} cores: one for the server, one for the load",
        "system": f"{_system()}, Python {platform.python_version()}",
        "packages": packages,
        "a2ad": "compiled, as in the image (`make compiled`)" if compiled else "from source, as `make run` starts it",
    }


def _system() -> str:
    """The kernel's version without what its builder has added: that would name a machine."""
    return f"{platform.system()} {'.'.join(platform.release().partition('-')[0].split('.')[:2])}"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def as_markdown(rows: Sequence[Row], effort: Effort, home: Path = Path()) -> str:
    """Tables that read well in a terminal, too."""
    facts = [f"- {name}: {value}" for name, value in machine(home).items()]
    facts.append(f"- effort: {effort.rounds} rounds of {effort.seconds:g} s{', reduced sizes' * effort.quick}")
    return "\n".join([*facts, *(line for section in _COLUMNS for line in _table(section, rows))])


def _table(section: str, rows: Sequence[Row]) -> Iterator[str]:
    found = [row for row in rows if row.section == section]
    if not found:
        return
    head = ["", "metric", *_COLUMNS[section], *(["spread"] if section != ALONE else []), "target"]
    cells = [head, *(_cells(row, above) for row, above in zip(found, [None, *found], strict=False))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    yield from ("", f"**{section}**", "")
    for number, line in enumerate(cells):
        yield "| " + " | ".join(_pad(cell, width, column) for column, (cell, width) in _columns(line, widths)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 1) + (":" if i > 1 else "-") for i, width in enumerate(widths)) + "|"


def _columns(line: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return enumerate(zip(line, widths, strict=True))


def _pad(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column <= 1 else cell.rjust(width)


def _cells(row: Row, above: Row | None) -> list[str]:
    name = "" if above is not None and above.bench == row.bench else row.bench
    cells = [name, row.metric, _number(median(row.ours))]
    if ratios := row.ratios():
        spread = f"{_ratio(min(ratios))}{_TO}{_ratio(max(ratios))}"
        cells += [_number(median(row.other)), _ratio(median(ratios)) + _TIMES, spread]
    return [*cells, _target(row)]


def _target(row: Row) -> str:
    if row.target is None:
        return ""
    unit = "" if row.section == ALONE else _TIMES
    return f"{row.target.bound} {row.target.value:g}{unit} {'met' if row.verdict() else 'MISSED'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def as_json(rows: Sequence[Row], effort: Effort) -> str:
    """Every sample, and what was concluded."""
    found: list[dict[str, Any]] = [{**asdict(row), "ratios": row.ratios(), "met": row.verdict()} for row in rows]
    return json.dumps({"machine": machine(), "effort": asdict(effort), "rows": found}, ensure_ascii=False, indent=1)


def write_into(path: Path, table: str) -> None:
    """Put the table between the marks of a document."""
    text = path.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no {BEGIN} followed by {END}")
    path.write_text(f"{before}{begin}\n{table}\n{end}{after}", "utf-8")
