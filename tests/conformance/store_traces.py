"""Promises about traces: each webhook belongs to that of the call which caused its event (spec: TRAC-01)."""

from __future__ import annotations

from collections.abc import Mapping

from a2a_server.ports.push import FailedAttempt
from a2a_server.ports.store import Store
from tests.conformance.authors import ANN, UNLIMITED, Author, chunk, config, message
from tests.support.house import Trace

NOW, UNTIL = 1_000, 2_000
ONE = Trace("00-11111111111111111111111111111111-1111111111111111-01", "a=1,b=2")
TWO = Trace("00-22222222222222222222222222222222-2222222222222222-00")


async def told(store: Store) -> Mapping[str, Mapping[int, Trace | None]]:
    """Of each config the traces of all that it is owed, by number; paid as they are found."""
    found: dict[str, dict[int, Trace | None]] = {}
    while deliveries := await store.claim_deliveries(NOW, UNTIL, 100, UNLIMITED):
        for delivery in deliveries:
            found.setdefault(delivery.hook.config.id, {})[delivery.number] = delivery.trace
            assert await store.finish_attempt(delivery, None)
    return found


class TracePromises:
    async def test_each_entry_s_debts_have_its_trace(self, store: Store) -> None:
        author = await Author(store).create()
        configs = [config(author.task_id, name) for name in "cd"]
        entries = [chunk(2, "x"), chunk(3, "x"), message(4), chunk(5, "x"), chunk(6, "x"), chunk(7, "x")]
        traces = [(3, ONE), (5, TWO), (7, None)]
        await author.commit(author.write(*entries, configs=configs, notify=True, traces=traces))
        expected = {2: None, 3: ONE, 5: TWO, 6: TWO, 7: None}
        assert await told(store) == {"c": expected, "d": expected}

    async def test_of_two_that_begin_at_once_the_later_counts(self, store: Store) -> None:
        author = await Author(store).create()
        traces = [(1, ONE), (2, None), (2, TWO), (9, ONE)]
        write = author.write(chunk(2, "x"), chunk(3, "x"), configs=[config(author.task_id)], notify=True, traces=traces)
        await author.commit(write)
        assert await told(store) == {"c": {2: TWO, 3: TWO}}

    async def test_a_task_is_created_in_a_trace_and_goes_on_without(self, store: Store) -> None:
        author = Author(store)
        await author.create(configs=[config(author.task_id)], notify=True, traces=[(1, ONE)])
        await author.chunk("x", notify=True)
        await author.chunk("x", notify=True, traces=[(3, TWO)])
        assert await told(store) == {"c": {1: ONE, 2: None, 3: TWO}}

    async def test_it_stays_through_failures_replacement_parking_and_a_restart(self, store: Store) -> None:
        author = Author(store)
        await author.create(configs=[config(author.task_id)], notify=True, traces=[(1, ONE)])
        for failure in (FailedAttempt(NOW, NOW, "timeout"), FailedAttempt(NOW, None, "gone")):
            (delivery,) = await store.claim_deliveries(NOW, UNTIL, 1, UNLIMITED)
            assert delivery.trace == ONE
            assert await store.finish_attempt(delivery, failure)
        await store.put_config(ANN, config(author.task_id, url="https://new.example/"))
        await store.close()
        await store.open()
        assert await told(store) == {"c": {1: ONE}}
