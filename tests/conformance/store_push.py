"""Promises about push configs and the webhooks they are owed (spec: PAID-01, PAID-02)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from a2a_server.ports.store import Debt, StaleWrite, Store
from tests.conformance.authors import ANN, BOB, Author, chunk, config, message, status

NOW, UNTIL = 1_000, 2_000


async def claimed(store: Store, now_ms: int = NOW, until_ms: int = UNTIL) -> list[tuple[str, str, int]]:
    return [(debt.task_id, debt.hook.config.id, debt.number) for debt in await store.claim_debts(now_ms, until_ms, 100)]


async def claim_one(store: Store, now_ms: int = NOW, until_ms: int = UNTIL) -> Debt:
    (debt,) = await store.claim_debts(now_ms, until_ms, 100)
    return debt


async def indebted(store: Store, *config_ids: str) -> Author:
    """A task whose configs are owed its second, third and fourth entry."""
    author = await Author(store).create()
    configs = [config(author.task_id, config_id) for config_id in config_ids]
    await author.commit(author.write(*(chunk(n, "x") for n in (2, 3, 4)), configs=configs, owe=True))
    return author


class ConfigPromises:
    async def test_a_config_is_read_as_it_was_put(self, store: Store) -> None:
        author = await Author(store).create()
        put = config(author.task_id, "c")
        put.config.token, put.config.authentication.scheme, put.config.tenant = "token", "Bearer", "acme"
        assert await store.put_config(ANN, put)
        assert await store.get_config(ANN, author.task_id, "c") == put
        assert await store.configs(ANN, author.task_id, "", 10) == [put]

    @pytest.mark.req("LPSH-02")
    @pytest.mark.parametrize("version", ["1.0", "0.3", "draft"])
    async def test_who_made_it_is_remembered_wherever_it_is_read(self, store: Store, version: str) -> None:
        """Which version's form its webhooks have, and what the client offered (CONF-34, CONF-36)."""
        author = await Author(store).create()
        offered = ("Digest", "Bearer", 'a "quoted", odd one', "Bearer")
        put, inline = (
            config(author.task_id, name)._replace(version=version, schemes=offered) for name in ("put", "inline")
        )
        assert await store.put_config(ANN, put)
        await author.commit(author.write(status(2), head=author.head(), configs=[inline], owe=True))
        assert await store.get_config(ANN, author.task_id, "put") == put
        assert await store.configs(ANN, author.task_id, "", 10) == [inline, put]
        owed = await store.claim_debts(NOW, UNTIL, 10)
        assert {debt.hook.config.id: debt.hook for debt in owed} == {"inline": inline, "put": put}

    @pytest.mark.req("PUSH-03")
    async def test_replacing_it_replaces_what_is_remembered(self, store: Store) -> None:
        author = await Author(store).create()
        old = config(author.task_id)._replace(version="0.3", schemes=("Basic", "Bearer"))
        await store.put_config(ANN, old)
        await store.put_config(ANN, config(author.task_id))
        assert await store.get_config(ANN, author.task_id, "c") == config(author.task_id)
        await store.put_config(ANN, old)
        assert await store.configs(ANN, author.task_id, "", 10) == [old]

    async def test_putting_it_again_replaces_it(self, store: Store) -> None:
        author = await Author(store).create(configs=[])
        await store.put_config(ANN, config(author.task_id, "c", "https://old.example/"))
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        (found,) = await store.configs(ANN, author.task_id, "", 10) or []
        assert found.config.url == "https://new.example/"

    async def test_equal_ids_under_two_tasks_are_two_configs(self, store: Store) -> None:
        one, two = await Author(store).create(), await Author(store).create()
        for author in (one, two):
            await store.put_config(ANN, config(author.task_id, "c"))
        await store.delete_config(ANN, one.task_id, "c")
        assert await store.get_config(ANN, two.task_id, "c") == config(two.task_id, "c")

    async def test_configs_are_walked_by_id(self, store: Store) -> None:
        author = await Author(store).create()
        for name in ("b", "d", "a", "c", "B"):
            await store.put_config(ANN, config(author.task_id, name))
        walked, after = [], ""
        while found := await store.configs(ANN, author.task_id, after, 2):
            after = found[-1].config.id
            walked += [one.config.id for one in found]
        assert walked == ["B", "a", "b", "c", "d"]

    async def test_a_task_that_is_not_there_differs_from_one_without_configs(self, store: Store) -> None:
        author = await Author(store).create()
        assert await store.configs(ANN, author.task_id, "", 10) == []
        assert await store.configs(ANN, "never", "", 10) is None
        assert await store.get_config(ANN, author.task_id, "c") is None
        assert not await store.put_config(ANN, config("never"))
        assert not await store.delete_config(ANN, "never", "c")

    async def test_deleting_what_is_gone_is_no_fault(self, store: Store) -> None:
        author = await Author(store).create()
        await store.put_config(ANN, config(author.task_id, "c"))
        assert await store.delete_config(ANN, author.task_id, "c")
        assert await store.delete_config(ANN, author.task_id, "c")
        assert await store.get_config(ANN, author.task_id, "c") is None


class DebtPromises:
    @pytest.mark.req("PAID-01")
    async def test_debts_are_written_with_the_entries(self, store: Store) -> None:
        author = Author(store)
        hook = config(author.task_id)
        await author.commit(author.write(author.first(), head=author.head(), configs=[hook], owe=True))
        debt = await claim_one(store)
        assert debt == Debt(ANN, author.task_id, 1, hook, 0, UNTIL)
        await store.settle(debt, None)
        with pytest.raises(StaleWrite):
            await author.commit(replace(author.write(chunk(2, "x"), owe=True), epoch=7))
        assert await claimed(store) == []

    async def test_only_what_readers_are_shown_is_owed(self, store: Store) -> None:
        author = await Author(store).create(configs=[config("t")])
        await store.delete_config(ANN, author.task_id, "c")
        await store.put_config(ANN, config(author.task_id))
        await author.chunk("not owed")
        await author.commit(author.write(message(3), status(4), chunk(5, "x"), head=author.head(), owe=True))
        await author.say(owe=True)
        numbers = []
        while found := await store.claim_debts(NOW, UNTIL, 10):
            numbers.append(found[0].number)
            assert await store.settle(found[0], None)
        assert numbers == [4, 5]

    async def test_every_config_is_owed(self, store: Store) -> None:
        author = await indebted(store, "c", "d")
        await author.chunk("more", owe=True)
        assert sorted(await claimed(store)) == [(author.task_id, "c", 2), (author.task_id, "d", 2)]

    @pytest.mark.req("PAID-02")
    async def test_each_config_is_served_in_order_and_one_at_a_time(self, store: Store) -> None:
        await indebted(store, "c")
        for number in (2, 3, 4):
            debt = await claim_one(store)
            assert (debt.number, debt.attempts) == (number, 0)
            assert await claimed(store) == []  # the next one waits for it
            assert await store.settle(debt, None)
        assert await claimed(store) == []

    @pytest.mark.req("PAID-02")
    async def test_one_configs_failures_do_not_delay_anothers(self, store: Store) -> None:
        author = await indebted(store, "c", "d")
        failing, working = sorted(await store.claim_debts(NOW, UNTIL, 10), key=lambda debt: debt.hook.config.id)
        await store.settle(failing, 9_000)
        await store.settle(working, None)
        assert await claimed(store) == [(author.task_id, "d", 3)]

    async def test_a_debt_put_off_comes_back_when_it_is_due(self, store: Store) -> None:
        await indebted(store, "c")
        assert await store.settle(await claim_one(store), 5_000)
        assert await claimed(store, 4_999, 6_000) == []
        debt = await claim_one(store, 5_000, 6_000)
        assert (debt.number, debt.attempts, debt.until_ms) == (2, 1, 6_000)

    async def test_a_claim_lapses(self, store: Store) -> None:
        await indebted(store, "c")
        lapsed = await claim_one(store)
        assert await claimed(store, UNTIL - 1, 9_000) == []
        assert await store.settle(lapsed, UNTIL)  # nobody else has claimed it: still ours
        debt = await claim_one(store, UNTIL, 9_000)
        assert not await store.settle(lapsed, None)
        assert not await store.settle(replace(debt, until_ms=UNTIL), None)
        assert await store.settle(debt, None)
        assert not await store.settle(debt, None)

    async def test_attempts_start_anew_with_each_debt(self, store: Store) -> None:
        await indebted(store, "c")
        await store.settle(await claim_one(store), NOW)
        debt = await claim_one(store)
        assert debt.attempts == 1
        await store.settle(debt, None)
        assert (await claim_one(store)).attempts == 0

    async def test_the_longest_unserved_go_first(self, store: Store) -> None:
        """With more configs than hands, a busy one takes its turn like the others."""
        await indebted(store, "a", "b", "c")
        served = []
        for now in range(1, 7):
            (debt,) = await store.claim_debts(now, 100, 1)
            served.append(debt.hook.config.id)
            await store.settle(debt, None)
        assert sorted(served[:3]) == ["a", "b", "c"]
        assert served[3:] == served[:3]

    async def test_of_many_claimers_each_debt_goes_to_one(self, store: Store) -> None:
        await indebted(store, *(f"c{n}" for n in range(20)))
        rounds = await asyncio.gather(*(store.claim_debts(NOW, UNTIL, 3) for _ in range(10)))
        ids = [debt.hook.config.id for got in rounds for debt in got]
        assert len(ids) == len(set(ids)) == 20

    async def test_a_deleted_config_is_owed_nothing(self, store: Store) -> None:
        author = await indebted(store, "c")
        debt = await claim_one(store)
        await store.delete_config(ANN, author.task_id, "c")
        assert not await store.settle(debt, None)
        await store.put_config(ANN, config(author.task_id, "c"))
        assert not await store.settle(debt, 5_000)
        assert await claimed(store, 9_000, 9_999) == []

    async def test_a_replaced_config_keeps_what_it_is_owed(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        debt = await claim_one(store)
        assert (debt.number, debt.hook.config.url) == (2, "https://new.example/")

    async def test_strangers_delete_no_debts(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.delete_config(BOB, author.task_id, "c")
        assert await claimed(store) == [(author.task_id, "c", 2)]
