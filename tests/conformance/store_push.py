"""Promises about push configs and the webhooks they are owed (spec: PAID-01, PAID-02)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from a2a_server.ports.push import Delivery, FailedAttempt, PushConfig
from a2a_server.ports.store import StaleWrite, Store
from tests.conformance.authors import ANN, BOB, COMPLETED, UNLIMITED, Author, chunk, config, message, status
from tests.support.house import Scope

NOW, UNTIL = 1_000, 2_000


async def claimed(store: Store, now_ms: int = NOW, until_ms: int = UNTIL) -> list[tuple[str, str, int]]:
    return [
        (delivery.task_id, delivery.hook.config.id, delivery.number)
        for delivery in await store.claim_deliveries(now_ms, until_ms, 100, UNLIMITED)
    ]


async def claim_one(store: Store, now_ms: int = NOW, until_ms: int = UNTIL) -> Delivery:
    (delivery,) = await store.claim_deliveries(now_ms, until_ms, 100, UNLIMITED)
    return delivery


def put_off(retry_ms: int | None, *, why: str = "timeout", tried: bool = True) -> FailedAttempt:
    return FailedAttempt(NOW, retry_ms, why, tried)


def rejection(retry_ms: int | None) -> FailedAttempt:
    """Without a further attempt the webhook is skipped."""
    return FailedAttempt(NOW, retry_ms, "status 400", rejected=True)


async def indebted(store: Store, *config_ids: str) -> Author:
    """A task whose configs are owed its second, third and fourth entry."""
    author = await Author(store).create()
    configs = [config(author.task_id, config_id) for config_id in config_ids]
    await author.commit(author.write(*(chunk(n, "x") for n in (2, 3, 4)), configs=configs, notify=True))
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
        await author.commit(author.write(status(2), head=author.head(), configs=[inline], notify=True))
        assert await store.get_config(ANN, author.task_id, "put") == put
        assert await store.configs(ANN, author.task_id, "", 10) == [inline, put]
        owed = await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED)
        assert {delivery.hook.config.id: delivery.hook for delivery in owed} == {"inline": inline, "put": put}

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


def hook_at(author: Author, host: str, config_id: str = "c") -> PushConfig:
    return config(author.task_id, config_id, f"https://{host}/")


async def indebted_at(store: Store, host: str, *config_ids: str, scope: Scope = ANN) -> Author:
    """A task whose configs are all at one host, and owed one entry."""
    author = await Author(store, scope=scope).create()
    configs = [hook_at(author, host, config_id) for config_id in config_ids or ("c",)]
    await author.commit(author.write(chunk(2, "x"), configs=configs, notify=True))
    return author


class DebtPromises:
    @pytest.mark.req("PAID-01")
    async def test_debts_are_written_with_the_entries(self, store: Store) -> None:
        author = Author(store)
        hook = config(author.task_id)
        await author.commit(author.write(author.first(), head=author.head(), configs=[hook], notify=True))
        delivery = await claim_one(store)
        assert delivery == Delivery(ANN, author.task_id, 1, hook, 0, UNTIL)
        await store.finish_attempt(delivery, None)
        with pytest.raises(StaleWrite):
            await author.commit(author.write(chunk(2, "x"), notify=True, epoch=7))
        assert await claimed(store) == []

    async def test_only_what_readers_are_shown_is_owed(self, store: Store) -> None:
        author = await Author(store).create(configs=[config("t")])
        await store.delete_config(ANN, author.task_id, "c")
        await store.put_config(ANN, config(author.task_id))
        await author.chunk("not owed")
        await author.commit(author.write(message(3), status(4), chunk(5, "x"), head=author.head(), notify=True))
        await author.say(notify=True)
        numbers = []
        while found := await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED):
            numbers.append(found[0].number)
            assert await store.finish_attempt(found[0], None)
        assert numbers == [4, 5]

    async def test_every_config_is_owed(self, store: Store) -> None:
        author = await indebted(store, "c", "d")
        await author.chunk("more", notify=True)
        assert sorted(await claimed(store)) == [(author.task_id, "c", 2), (author.task_id, "d", 2)]

    @pytest.mark.req("PAID-02")
    async def test_each_config_is_served_in_order_and_one_at_a_time(self, store: Store) -> None:
        await indebted(store, "c")
        for number in (2, 3, 4):
            delivery = await claim_one(store)
            assert (delivery.number, delivery.attempts) == (number, 0)
            assert await claimed(store) == []  # the next one waits for it
            assert await store.finish_attempt(delivery, None)
        assert await claimed(store) == []

    @pytest.mark.req("PAID-02")
    async def test_one_configs_failures_do_not_delay_anothers(self, store: Store) -> None:
        author = await indebted(store, "c", "d")
        failing, working = sorted(
            await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED), key=lambda delivery: delivery.hook.config.id
        )
        await store.finish_attempt(failing, put_off(9_000))
        await store.finish_attempt(working, None)
        assert await claimed(store) == [(author.task_id, "d", 3)]

    async def test_a_debt_put_off_comes_back_when_it_is_due(self, store: Store) -> None:
        await indebted(store, "c")
        assert await store.finish_attempt(await claim_one(store), put_off(5_000))
        assert await claimed(store, 4_999, 6_000) == []
        delivery = await claim_one(store, 5_000, 6_000)
        assert (delivery.number, delivery.attempts, delivery.until_ms) == (2, 1, 6_000)

    async def test_a_claim_lapses(self, store: Store) -> None:
        await indebted(store, "c")
        lapsed = await claim_one(store)
        assert await claimed(store, UNTIL - 1, 9_000) == []
        assert await store.finish_attempt(lapsed, put_off(UNTIL))  # nobody else has claimed it: still ours
        delivery = await claim_one(store, UNTIL, 9_000)
        assert not await store.finish_attempt(lapsed, None)
        assert not await store.finish_attempt(replace(delivery, until_ms=UNTIL), None)
        assert await store.finish_attempt(delivery, None)
        assert not await store.finish_attempt(delivery, None)

    async def test_attempts_start_anew_with_each_debt(self, store: Store) -> None:
        await indebted(store, "c")
        await store.finish_attempt(await claim_one(store), put_off(NOW))
        delivery = await claim_one(store)
        assert delivery.attempts == 1
        await store.finish_attempt(delivery, None)
        assert (await claim_one(store)).attempts == 0

    async def test_the_longest_unserved_go_first(self, store: Store) -> None:
        """With more configs than hands, a busy one takes its turn like the others."""
        await indebted(store, "a", "b", "c")
        served = []
        for now in range(1, 7):
            (delivery,) = await store.claim_deliveries(now, 100, 1, UNLIMITED)
            served.append(delivery.hook.config.id)
            await store.finish_attempt(delivery, None)
        assert sorted(served[:3]) == ["a", "b", "c"]
        assert served[3:] == served[:3]

    async def test_of_many_claimers_each_debt_goes_to_one(self, store: Store) -> None:
        await indebted(store, *(f"c{n}" for n in range(20)))
        rounds = await asyncio.gather(*(store.claim_deliveries(NOW, UNTIL, 3, UNLIMITED) for _ in range(10)))
        ids = [delivery.hook.config.id for got in rounds for delivery in got]
        assert len(ids) == len(set(ids)) == 20

    async def test_a_deleted_config_is_owed_nothing(self, store: Store) -> None:
        author = await indebted(store, "c")
        delivery = await claim_one(store)
        await store.delete_config(ANN, author.task_id, "c")
        assert not await store.finish_attempt(delivery, None)
        await store.put_config(ANN, config(author.task_id, "c"))
        assert not await store.finish_attempt(delivery, put_off(5_000))
        assert await claimed(store, 9_000, 9_999) == []

    async def test_a_replaced_config_keeps_what_it_is_owed(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        delivery = await claim_one(store)
        assert (delivery.number, delivery.hook.config.url) == (2, "https://new.example/")

    async def test_strangers_delete_no_debts(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.delete_config(BOB, author.task_id, "c")
        assert await claimed(store) == [(author.task_id, "c", 2)]

    @pytest.mark.req("PAID-01")
    async def test_a_commit_says_whether_there_is_something_to_pay(self, store: Store) -> None:
        author = Author(store)
        write = author.write(author.first(), head=author.head(), notify=True)
        assert not await store.commit(write)
        author.number = 1
        assert not await store.commit(author.write(chunk(2, "x"), configs=[config(author.task_id)]))
        author.number = 2
        assert await store.commit(author.write(chunk(3, "x"), notify=True))
        author.number = 3
        assert not await store.commit(author.write(message(4), head=author.head(), notify=True))
        author.number = 4
        await store.finish_attempt(await claim_one(store), put_off(None))
        assert not await store.commit(author.write(chunk(5, "x"), notify=True))

    async def test_the_next_debt_is_the_earliest(self, store: Store) -> None:
        assert await store.next_due() is None
        await indebted(store, "c", "d")
        assert await store.next_due() == 0
        one, two = await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED)
        assert await store.next_due() == UNTIL  # when the claims lapse
        await store.finish_attempt(one, put_off(1_500))
        assert await store.next_due() == 1_500
        await store.finish_attempt(two, put_off(1_200))
        assert await store.next_due() == 1_200

    async def test_the_next_debt_is_the_earliest_of_all_hosts(self, store: Store) -> None:
        for host, due_ms in (("late.example", 1_500), ("early.example", 1_200)):
            await indebted_at(store, host)
            await store.finish_attempt(await claim_one(store), put_off(due_ms))
        assert await store.next_due() == 1_200

    @pytest.mark.req("PAID-02")
    async def test_a_replaced_config_is_nobodys_who_tries_the_old_one(self, store: Store) -> None:
        author = await indebted(store, "c")
        old = await claim_one(store)
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        assert not await store.finish_attempt(old, None)
        assert not await store.finish_attempt(old, put_off(None))
        assert (await claim_one(store, NOW, 5_000)).hook.config.url == "https://new.example/"

    async def test_a_replaced_config_begins_anew(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.finish_attempt(await claim_one(store), put_off(9_000))
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        delivery = await claim_one(store)
        assert (delivery.number, delivery.attempts, delivery.failing_ms) == (2, 0, None)

    async def test_only_failures_count_as_attempts(self, store: Store) -> None:
        await indebted(store, "c")
        await store.finish_attempt(await claim_one(store), put_off(NOW, tried=False))
        delivery = await claim_one(store)
        assert (delivery.attempts, delivery.failing_ms) == (0, None)
        await store.finish_attempt(delivery, put_off(NOW, why="status 500"))
        delivery = await claim_one(store, UNTIL, 9_000)
        assert (delivery.number, delivery.attempts, delivery.failing_ms) == (2, 1, NOW)


class SkipPromises:
    @pytest.mark.req("CONF-81")
    async def test_rejections_are_kept_with_the_delivery(self, store: Store) -> None:
        await indebted(store, "c")
        counts = []
        for rejected in (False, True, False, True):
            delivery = await claim_one(store)
            counts.append((delivery.attempts, delivery.rejections))
            await store.finish_attempt(delivery, rejection(NOW) if rejected else put_off(NOW))
        assert counts == [(0, 0), (1, 0), (2, 1), (3, 1)]
        delivery = await claim_one(store)
        assert (delivery.number, delivery.attempts, delivery.rejections) == (2, 4, 2)
        await store.finish_attempt(delivery, None)
        assert (await claim_one(store)).rejections == 0

    @pytest.mark.req("CONF-81")
    async def test_after_a_skipped_one_the_next_begins_anew(self, store: Store) -> None:
        author = await indebted(store, "c")
        for failure in (put_off(NOW), rejection(NOW), rejection(None)):
            assert await store.finish_attempt(await claim_one(store), failure)
        assert await store.commit(author.write(chunk(5, "x"), notify=True))  # it is not parked
        delivery = await claim_one(store)
        assert (delivery.number, delivery.attempts, delivery.rejections, delivery.failing_ms) == (3, 0, 0, None)

    @pytest.mark.req("CONF-81")
    async def test_only_who_holds_the_claim_may_skip(self, store: Store) -> None:
        author = await indebted(store, "c")
        old = await claim_one(store)
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        assert not await store.finish_attempt(old, rejection(None))
        assert await claimed(store) == [(author.task_id, "c", 2)]

    @pytest.mark.req("CONF-81", "PUSH-03")
    async def test_a_replaced_config_has_rejected_nothing(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.finish_attempt(await claim_one(store), rejection(NOW))
        await store.put_config(ANN, config(author.task_id, "c", "https://new.example/"))
        assert (await claim_one(store)).rejections == 0

    @pytest.mark.req("CONF-81")
    async def test_a_config_whose_last_one_is_skipped_does_not_count(self, store: Store) -> None:
        author = Author(store, state=COMPLETED)
        hooks = [hook_at(author, "a.example")]
        await author.commit(author.write(author.first(), head=author.head(), configs=hooks, notify=True))
        assert await store.count_configs(ANN.owner, "a.example:443", 10) == 1
        await store.finish_attempt(await claim_one(store), rejection(None))
        assert await store.count_configs(ANN.owner, "a.example:443", 10) == 0
        assert await store.next_due() is None


class Rooms:
    """Limits as a test sets them: for each host, for some hosts, for some owners."""

    def __init__(self, each: int, hosts: Mapping[str, int] | None = None, **owners: int) -> None:
        self.each = each
        self.hosts = dict(hosts or {})
        self.owners = owners
        self.asked: list[tuple[str, str]] = []

    def room(self, owner: str, host: str = "") -> int:
        self.asked.append((owner, host))
        own = self.owners.get(owner, 1 << 30)
        return min(own, self.hosts.get(host, self.each)) if host else own

    def take(self, owner: str, host: str) -> None:
        self.hosts[host] = self.hosts.get(host, self.each) - 1
        if owner in self.owners:
            self.owners[owner] -= 1


class RoomPromises:
    """Hosts take turns, and each gets no more than there is room for."""

    @pytest.mark.req("PAID-02")
    async def test_a_host_without_room_is_passed_over(self, store: Store) -> None:
        full = await indebted_at(store, "full.example", *"abcdef")
        free = await indebted_at(store, "free.example:8443", *"abc")
        rooms = Rooms(2, {"full.example:443": 0})
        deliveries = await store.claim_deliveries(NOW, UNTIL, 10, rooms)
        assert {(delivery.task_id, delivery.host) for delivery in deliveries} == {(free.task_id, "free.example:8443")}
        assert len(deliveries) == 2
        deliveries = await store.claim_deliveries(NOW, UNTIL, 10, Rooms(0, {"full.example:443": 4}))
        assert {(delivery.task_id, delivery.host) for delivery in deliveries} == {(full.task_id, "full.example:443")}
        assert len(deliveries) == 4

    @pytest.mark.req("PAID-02", "LIMT-02")
    async def test_an_owner_without_room_is_passed_over(self, store: Store) -> None:
        for number in range(40):
            await indebted_at(store, f"h{number:02}.example", "a", "b")
        theirs = await indebted_at(store, "h20.example", "a", "b", scope=BOB)
        limits = Rooms(80, ann=0)
        deliveries = await store.claim_deliveries(NOW, UNTIL, 10, limits)
        assert [(delivery.task_id, delivery.scope) for delivery in deliveries] == [(theirs.task_id, BOB)] * 2
        assert limits.hosts == {"h20.example:443": 78}  # told of each delivery
        limits = Rooms(80, ann=3)
        deliveries = await store.claim_deliveries(NOW, UNTIL, 10, limits)
        assert [delivery.scope for delivery in deliveries] == [ANN] * 3
        assert limits.owners == {"ann": 0}

    @pytest.mark.req("PAID-02", "LIMT-02")
    async def test_owners_with_one_host_have_room_of_their_own_there(self, store: Store) -> None:
        class PerLane(Rooms):
            def room(self, owner: str, host: str = "") -> int:
                return {"ann": 0, "bob": 1}[owner] if host else 5

        await indebted_at(store, "shared.example", *"abcdef")
        theirs = await indebted_at(store, "shared.example", scope=BOB)
        (delivery,) = await store.claim_deliveries(NOW, UNTIL, 10, PerLane(5))
        assert (delivery.task_id, delivery.scope, delivery.host) == (theirs.task_id, BOB, "shared.example:443")

    @pytest.mark.req("PAID-02")
    async def test_hosts_take_turns(self, store: Store) -> None:
        for host in ("a.example", "b.example", "c.example"):
            await indebted_at(store, host, *(f"{number:02}" for number in range(30)))
        served = [(await store.claim_deliveries(NOW, UNTIL, 1, UNLIMITED))[0].host for _ in range(9)]
        assert sorted(served[:3]) == ["a.example:443", "b.example:443", "c.example:443"]
        assert served == 3 * served[:3]

    async def test_more_debts_and_hosts_than_are_looked_at_at_once(self, store: Store) -> None:
        for host in range(300):
            await indebted_at(store, f"h{host}.example", "a", "b")
        deliveries: list[Delivery] = []
        while found := await store.claim_deliveries(NOW, UNTIL, 100, Rooms(1, {"h7.example:443": 2})):
            deliveries += found
        assert len({(delivery.task_id, delivery.hook.config.id) for delivery in deliveries}) == len(deliveries) == 600

    async def test_one_host_may_have_all_there_is(self, store: Store) -> None:
        await indebted_at(store, "a.example", *(f"{number:03}" for number in range(100)))
        await indebted_at(store, "b.example")
        assert len(await store.claim_deliveries(NOW, UNTIL, 70, Rooms(80))) == 70
        assert len(await store.claim_deliveries(NOW, UNTIL, 70, Rooms(80))) == 31

    async def test_a_round_claims_each_room_once(self, store: Store) -> None:
        for host in range(40):
            await indebted_at(store, f"h{host}.example", "a", "b", "c")
        deliveries = await store.claim_deliveries(NOW, UNTIL, 1_000, Rooms(2))
        assert len({delivery.host for delivery in deliveries}) == 40
        assert len(deliveries) <= 80

    async def test_a_config_that_moves_changes_hosts(self, store: Store) -> None:
        author = await indebted_at(store, "old.example")
        await store.put_config(ANN, hook_at(author, "new.example"))
        (delivery,) = await store.claim_deliveries(NOW, UNTIL, 10, Rooms(1, {"old.example:443": 0}))
        assert delivery.host == "new.example:443"


class CountPromises:
    """How many configs of an owner at a host have something to send."""

    @pytest.mark.req("LIMT-01")
    async def test_configs_count_for_their_owner_and_host(self, store: Store) -> None:
        author = await indebted_at(store, "a.example", *"abc")
        await indebted_at(store, "a.example", "d", scope=Scope("north", ANN.owner))
        await indebted_at(store, "b.example")
        await indebted_at(store, "a.example", scope=BOB)
        site = "a.example:443"
        assert await store.count_configs(ANN.owner, site, 10) == 4  # in all tenants
        assert await store.count_configs(ANN.owner, site, 2) == 2
        assert await store.count_configs(BOB.owner, site, 10) == 1
        assert await store.count_configs(ANN.owner, "a.example:8443", 10) == 0
        await store.put_config(ANN, hook_at(author, "a.example", "a"))
        await store.put_config(ANN, hook_at(author, "b.example", "b"))
        await store.delete_config(ANN, author.task_id, "c")
        assert await store.count_configs(ANN.owner, site, 10) == 2
        assert await store.count_configs(ANN.owner, "b.example:443", 10) == 2

    @pytest.mark.req("LIMT-01")
    async def test_configs_and_hosts_of_an_owner_are_counted_together(self, store: Store) -> None:
        assert await store.count_hosts(ANN.owner, 10) == await store.count_configs(ANN.owner, None, 10) == 0
        author = await indebted_at(store, "a.example", *"abc")
        await indebted_at(store, "b.example", scope=Scope("north", ANN.owner))
        await indebted_at(store, "c.example", scope=BOB)
        assert await store.count_configs(ANN.owner, None, 10) == 4
        assert await store.count_configs(ANN.owner, None, 3) == 3
        assert await store.count_hosts(ANN.owner, 10) == 2
        assert await store.count_hosts(ANN.owner, 1) == 1
        await store.put_config(ANN, hook_at(author, "d.example", "a"))
        assert (await store.count_configs(ANN.owner, None, 10), await store.count_hosts(ANN.owner, 10)) == (4, 3)
        for delivery in await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED):
            await store.finish_attempt(delivery, put_off(None) if delivery.host != "a.example:443" else None)
        assert (await store.count_configs(ANN.owner, None, 10), await store.count_hosts(ANN.owner, 10)) == (2, 1)
        assert await store.count_hosts(BOB.owner, 10) == 0

    @pytest.mark.req("LIMT-01")
    async def test_configs_with_nothing_to_send_do_not_count(self, store: Store) -> None:
        site, authors = "a.example:443", [await indebted_at(store, "a.example") for _ in range(3)]
        for delivery in await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED):
            await store.finish_attempt(delivery, None)
        assert await store.count_configs(ANN.owner, site, 10) == 3  # more may happen to their tasks
        done, parked, running = authors
        for author in (done, parked):
            await author.become(COMPLETED, notify=True)
        assert await store.count_configs(ANN.owner, site, 10) == 3
        for delivery in await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED):
            await store.finish_attempt(delivery, None if delivery.task_id == done.task_id else put_off(None))
        assert await store.count_configs(ANN.owner, site, 10) == 1
        await store.put_config(ANN, hook_at(parked, "a.example"))
        assert await store.count_configs(ANN.owner, site, 10) == 2
        await store.put_config(ANN, hook_at(done, "a.example"))
        await store.put_config(ANN, hook_at(done, "a.example", "late"))
        assert await store.count_configs(ANN.owner, site, 10) == 2
        await store.delete_config(ANN, running.task_id, "c")
        assert await store.count_configs(ANN.owner, site, 10) == 1

    @pytest.mark.req("LIMT-01")
    async def test_a_task_that_is_finished_at_once_counts_until_its_webhooks_are_delivered(self, store: Store) -> None:
        author = Author(store, state=COMPLETED)
        hooks = [hook_at(author, "a.example")]
        await author.commit(author.write(author.first(), head=author.head(), configs=hooks, notify=True))
        assert await store.count_configs(ANN.owner, "a.example:443", 10) == 1
        await store.finish_attempt(await claim_one(store), None)
        assert await store.count_configs(ANN.owner, "a.example:443", 10) == 0


class ParkingPromises:
    @pytest.mark.req("PAID-03")
    async def test_a_parked_config_is_not_claimed(self, store: Store) -> None:
        author = await indebted(store, "c", "d")
        parked, other = sorted(
            await store.claim_deliveries(NOW, UNTIL, 10, UNLIMITED), key=lambda delivery: delivery.hook.config.id
        )
        assert await store.finish_attempt(parked, put_off(None, why="gone"))
        assert not await store.finish_attempt(parked, None)
        await store.finish_attempt(other, None)
        await author.chunk("more", notify=True)
        assert await claimed(store, 9_000, 9_999) == [(author.task_id, "d", 3)]

    @pytest.mark.req("PAID-03", "PUSH-03")
    async def test_what_is_parked_is_retried_when_it_is_put_anew(self, store: Store) -> None:
        author = await indebted(store, "c")
        await store.finish_attempt(await claim_one(store), put_off(None))
        await store.put_config(ANN, config(author.task_id, "c"))
        assert await claimed(store) == [(author.task_id, "c", 2)]
