"""The benchmarks by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.bench.cases import chunks, idle, lists, reads, sends, streams
from tests.bench.lab import Lab
from tests.bench.rows import Row

Case = Callable[[Lab], Iterator[Row]]
"""Its docstring's first line is its description in `--help`."""

CASES: Mapping[str, Case] = {
    "send": sends.send,
    "get": reads.get,
    "list": reads.first_page,
    "stream": streams.stream,
    "chunks": chunks.chunks,
    "pages": lists.pages,
    "idle": idle.idle,
}
