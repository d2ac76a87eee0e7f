"""Three servers on one PostgreSQL under load, and what may go wrong around them: nothing is lost (spec: SCAL-06).

Each run has a seed, and names it when it fails; `pytest --seed N` repeats it. `make faults` plays longer ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.cluster import faults
from tests.faults.cluster.faults import FAKETIME, Grounds, NoDiskError, small_disk
from tests.faults.cluster.scene import Outcome
from tests.support.postgres import Cluster, cluster, has_pgbouncer

pytestmark = [pytest.mark.req("SCAL-06"), pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def grounds(postgres_cluster: Cluster, tmp_path: Path, seed: int) -> Grounds:
    return Grounds(postgres_cluster, tmp_path, seed, rounds=1)


@contextmanager
def own_grounds(tmp_path: Path, seed: int, *, place: Path | None = None) -> Iterator[Grounds]:
    """With a database that a fault may stop."""
    with cluster("fsync=off", place=place) as made:
        yield Grounds(made, tmp_path, seed, rounds=1)


def judge(outcome: Outcome, seed: int) -> None:
    """Nothing is wrong, and there was something that could have been."""
    assert not outcome.findings, f"--seed {seed}: {outcome.figures}\n" + "\n".join(outcome.findings[:50])
    assert outcome.figures is not None
    assert min(outcome.figures.tasks, outcome.figures.heard, outcome.figures.webhooks) > 10


# -- servers


@pytest.mark.req("DURA-01", "DURA-02", "ONCE-01", "ORDR-03", "PAID-01", "RPLY-02", "RPLY-05")
async def test_servers_are_killed(grounds: Grounds, seed: int) -> None:
    outcome = await faults.kills(replace(grounds, rounds=3))
    judge(outcome, seed)
    assert len(outcome.scene.killed) == 3


@pytest.mark.req("DURA-03", "SCAL-04")
async def test_servers_are_paused_for_longer_than_their_session(grounds: Grounds, seed: int) -> None:
    judge(await faults.pauses(grounds), seed)


@pytest.mark.req("DURA-08")
async def test_servers_are_restarted_one_after_the_other(grounds: Grounds, seed: int) -> None:
    judge(await faults.rolling(grounds), seed)


@pytest.mark.req("SCAL-03")
@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed (Debian: apt install faketime)")
async def test_clocks_are_five_minutes_wrong(grounds: Grounds, seed: int) -> None:
    judge(await faults.clocks(grounds), seed)


# -- the database


@pytest.mark.req("SCAL-08")
async def test_the_database_is_restarted_and_crashes(tmp_path: Path, seed: int) -> None:
    with own_grounds(tmp_path, seed) as grounds:
        judge(await faults.restarts(replace(grounds, rounds=2)), seed)


@pytest.mark.req("DURA-07")
async def test_the_disk_of_the_database_is_full(tmp_path: Path, seed: int) -> None:
    with ExitStack() as stack:
        try:
            place = stack.enter_context(small_disk(192))
        except NoDiskError as error:
            pytest.skip(str(error))
        grounds = stack.enter_context(own_grounds(tmp_path, seed, place=place))
        judge(await faults.full_disk(grounds), seed)


@pytest.mark.req("SCAL-08")
async def test_a_standby_takes_the_place_of_the_database(tmp_path: Path, seed: int) -> None:
    with own_grounds(tmp_path, seed) as grounds, cluster("fsync=off", primary=grounds.cluster) as standby:
        judge(await faults.failover(replace(grounds, rounds=3, standby=standby)), seed)


@pytest.mark.req("SCAL-08")
async def test_transactions_are_refused_for_reasons_that_pass(grounds: Grounds, seed: int) -> None:
    judge(await faults.conflicts(replace(grounds, rounds=4)), seed)


# -- the network


@pytest.mark.req("SCAL-08")
async def test_connections_to_the_database_are_cut_and_slow_and_swallow_everything(grounds: Grounds, seed: int) -> None:
    judge(await faults.network(replace(grounds, rounds=3)), seed)


@pytest.mark.req("SCAL-02")
@pytest.mark.skipif(not has_pgbouncer(), reason="PgBouncer is not installed (Debian: apt install pgbouncer)")
async def test_everything_goes_through_pgbouncer(grounds: Grounds, seed: int) -> None:
    judge(await faults.pooler(grounds), seed)
