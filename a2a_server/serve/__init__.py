"""The composition root: settings → adapters → core → doors. Nothing else imports adapters or the gateway.

1. `Doors.take` (`doors`) takes the ports, so that the card can name them; nobody answers yet.
2. `parts` makes what settings alone describe: store, rules, webhooks. `lifespan` opens what the agent needs, `journal`
   the access log and the audit, and `authentication` makes what knows the callers.
3. `core_of` puts the operations together, and starting them takes up what an earlier process left.
4. The pipeline joins steps and operations, and `Doors.open` lets calls in.
5. `Server.leave` lets clients go over to other processes on the same ports, if there are any.
6. `Server.close` drains: no new calls, turns end, streams deliver what is pending, doors close, then the agent.

`running` does all of that for a server. `relaying` (`gateway`) runs a gateway alone in front of servers elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial

import structlog
from grpc.aio import ServerInterceptor

from a2a_gateway.cards.card_file import read_card
from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.recognition import recognised
from a2a_server.operations.core import Core
from a2a_server.operations.rpc.cards import CardBook
from a2a_server.ports.authenticator import CardSecurity
from a2a_server.ports.journal import Audit
from a2a_server.ports.store import Store
from a2a_server.ports.wakeups import Wakeups
from a2a_server.serve import start_warnings
from a2a_server.serve.agents import AgentLives, Agents, LivingAgents, served_agents_of
from a2a_server.serve.authentication import authenticator_of
from a2a_server.serve.calling import calling
from a2a_server.serve.doors import LAST_ITEMS, Doors, base_of, interfaces_at, issuer_of, keep_tls
from a2a_server.serve.gateway import UNUSABLE, relaying
from a2a_server.serve.journal import access_log, auditing
from a2a_server.serve.parts import (
    access_steps,
    clock_of,
    delivery_of,
    key_store_of,
    limits_of,
    log_internal,
    rates_of,
    replicas_of,
    rules_of,
    signing_below,
    store_of,
    wakeups_of,
)
from a2a_server.serve.watchdog import Watchdog
from a2a_server.settings import Settings
from a2a_server.transport.address import Address
from a2a_server.transport.local import LocalUpstream
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline, Step
from a2a_server.transport.steps import standard

__all__ = ["UNUSABLE", "Agents", "Server", "read_card", "recognised", "relaying", "running"]

_SECONDS_BETWEEN_LOOKS = 0.1

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Server:
    """A server that answers calls."""

    card: pb.AgentCard
    pipeline: Pipeline
    core: Core
    doors: Doors
    drained: bool = False

    @property
    def grpc(self) -> Address:
        """Where the gRPC door really listens."""
        return self.doors.grpc_at

    @property
    def http(self) -> Address | None:
        """Where the HTTP door really listens, if it does."""
        return self.doors.http_at

    async def drain(self) -> None:
        """Take no new calls, let turns end, give streams their pending events (DURA-08). Repeating it does nothing."""
        if self.drained:
            return
        self.drained = True
        log.info("server.draining", streams=self.pipeline.streams.count)
        self.pipeline.leaving = True
        await self.doors.grpc.refuse_health()
        await asyncio.sleep(self.core.services.limits.drain_delay)
        self.pipeline.draining = True
        if self.doors.http is not None:
            self.doors.http.drain()
        await self.core.drain()
        await self.pipeline.streams.settle(LAST_ITEMS)
        self.pipeline.streams.end_all()

    async def leave(self, seconds: float) -> None:
        """Let clients go over to other processes on the same ports, and turns end, for so long (OPER-07)."""
        log.info("server.leaving", seconds=seconds)
        await self.doors.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.core.live_turns) or await self.doors.is_connected():  # noqa: ASYNC110 - gRPC does not tell
                    await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    async def close(self) -> None:
        await self.drain()
        await self.doors.close()


@asynccontextmanager
async def running(  # noqa: PLR0913 - what an embedding program may set, by keyword
    settings: Settings,
    agent: Agents,
    *,
    steps: Sequence[Step] = (),
    interceptors: Sequence[ServerInterceptor] = (),
    reread: asyncio.Event | None = None,
    worker: int = 0,
) -> AsyncIterator[Server]:
    """Serve one agent, or several by their tenants, for as long as the context lasts; then drain and close everything.

    `steps` run for every call after the standard ones; `interceptors` are those of grpc.aio, for every gRPC call.
    Setting `reread` has the files of TLS read again. A `worker` shares its ports with others, and has a
    number.
    """
    async with AsyncExitStack() as stack:
        doors = Doors.take(settings, stack, interceptors, shared=worker > 0)
        store = store_of(settings)
        await store.open()
        stack.push_async_callback(store.close)
        lives = AgentLives(settings.limits.drain_grace, stack)
        agents = calling(settings, await lives.open(agent), stack)
        base = base_of(settings, doors.http_at) if doors.http_at else settings.public_url
        access = stack.enter_context(access_log(settings.log, worker))
        audit = await stack.enter_async_context(auditing(settings.audit))
        revoked = doors.tls.fault if doors.tls is not None and settings.tls.crl else None
        keys = key_store_of(settings, store)
        authenticator = await authenticator_of(settings, stack, base=base, keys=keys, revoked=revoked)
        wakeups = await wakeups_of(settings, store, stack)
        core = core_of(settings, agents, store, wakeups, doors, authenticator.card, audit)
        await core.start()
        served = core.services.agents
        checks = access_steps(settings, served, stack)
        rules = rules_of(settings, served, rates_of(settings, store, stack))
        taken = (*standard(authenticator, rules), *checks, *steps)
        streams = OpenStreams(**asdict(settings.streams))
        pipeline = Pipeline(
            core.operations, taken, streams, max_values=settings.transport.max_values, audit=audit, access=access
        )
        upstream = LocalUpstream(pipeline, store)
        await doors.open(settings, pipeline, upstream, audit)
        keep_tls(doors.tls, stack, reread)
        health = asyncio.ensure_future(doors.grpc.keep_health(upstream.ready))
        stack.callback(health.cancel)
        watchdog = Watchdog(settings.loop_block_warning)
        pipeline.streams.start()
        watchdog.start()
        stack.callback(watchdog.stop)
        stack.push_async_callback(pipeline.streams.close)
        server = Server(card=core.card, pipeline=pipeline, core=core, doors=doors)
        stack.push_async_callback(server.close)
        stack.callback(lives.draining)
        start_warnings.warn(settings)
        at = {"grpc": str(server.grpc), "http": str(server.http or "")}
        named = {"agents": list(agents)} if isinstance(agents, Mapping) else {}
        log.info("server.started", **at, agent=server.card.name, **named, store=settings.store_name)
        yield server


def core_of(  # noqa: PLR0913, PLR0917 - what a server has by now
    settings: Settings,
    agents: LivingAgents,
    store: Store,
    wakeups: Wakeups,
    doors: Doors,
    security: CardSecurity,
    audit: Audit | None,
) -> Core:
    base = base_of(settings, doors.http_at) if doors.http_at else ""
    clock = clock_of(settings, store)
    delivery = delivery_of(settings, clock, issuer_of(settings, base, doors.grpc_at))
    limits = limits_of(settings)
    make_cards = partial(
        CardBook,
        interfaces=partial(interfaces_at, settings, doors.grpc_at, base),
        push_notifications=delivery is not None,
        replay=settings.replay_extension,
        input_requests=settings.input_request_extension,
        sign=signing_below(settings, base),
    )
    return Core(
        agents=served_agents_of(settings, agents, limits, security, make_cards),
        store=store,
        wakeups=wakeups,
        clock=clock,
        limits=limits,
        ages=settings.retention,
        observers=[log_internal],
        keep_open_on_input=settings.keep_streams_open_on_input,
        answer_by_reference=settings.answer_by_reference,
        delivery=delivery,
        audit=audit,
        replicas=replicas_of(settings, store),
        session_seconds=settings.postgresql.session,
    )
