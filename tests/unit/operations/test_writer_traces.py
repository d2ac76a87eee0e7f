"""The writer says of each entry which trace it belongs to, and nothing where there is none (spec: TRAC-01)."""

from __future__ import annotations

from tests.support.house import Trace
from tests.unit.operations.test_writer import Disk, chunk, create, writer

ONE, TWO = (Trace(f"00-{digit * 32}-{digit * 16}-01", f"a={digit}") for digit in "12")


def marks(disk: Disk) -> list[list[tuple[int, Trace | None]]]:
    """Of each write its entries, with the traces they belong to."""
    return [[(entry.number, write.trace_of(entry.number)) for entry in write.entries] for write in disk.writes]


async def test_a_commit_may_hold_the_end_of_one_and_the_beginning_of_another() -> None:
    disk = Disk()
    made = writer(disk)
    made.caused_by(ONE)
    create(made)
    await made.settle()
    for trace in (ONE, None, TWO, TWO):
        made.caused_by(trace)
        made.append(chunk("x"))
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    made.caused_by(None)
    made.append(chunk("x"))
    await made.settle()
    assert marks(disk) == [[(1, ONE)], [(2, ONE), (3, None), (4, TWO), (5, TWO)], [(6, TWO)], [(7, None)]]


async def test_what_is_said_after_the_last_entry_is_for_the_next_commit() -> None:
    disk = Disk()
    made = writer(disk)
    made.caused_by(ONE)
    create(made)
    made.caused_by(TWO)
    await made.settle()
    made.end([7])  # a commit without entries
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    assert marks(disk) == [[(1, ONE)], [], [(2, TWO)]]


async def test_nothing_is_said_without_a_trace() -> None:
    disk = Disk()
    made = writer(disk)
    made.caused_by(None)
    create(made)
    await made.settle()
    made.caused_by(ONE)
    made.append(chunk("x"))
    made.caused_by(None)
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    made.append(chunk("x"))
    await made.settle()
    assert [bool(write.traces) for write in disk.writes] == [False, True, False, False]
    assert marks(disk)[1] == [(2, ONE)]
