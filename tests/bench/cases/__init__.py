"""The benchmarks by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.bench.cases import (
    chunks,
    codec,
    http_reads,
    http_sends,
    idle,
    lists,
    networked,
    old_sends,
    postgres,
    reads,
    replicas,
    sends,
    sse_fanout,
    sse_idle,
    streams,
    trust,
    webhooks,
    workers,
)
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
    "postgres": postgres.postgres,
    "idle": idle.idle,
    "codec": codec.codec,
    "http_send": http_sends.http_send,
    "old_send": old_sends.old_send,
    "http_get": http_reads.http_get,
    "http_list": http_reads.http_list,
    "http_stream": streams.http_stream,
    "sse_idle": sse_idle.sse_idle,
    "sse_fanout": sse_fanout.sse_fanout,
    "trust": trust.trust,
    "networked": networked.networked,
    "workers": workers.workers,
    "webhooks": webhooks.webhooks,
    "replicas": replicas.replicas,
    "go": http_reads.go,
}
