"""What a webhook tells: the event, or the task as the event left it (spec: HOOK-01, LPSH-03, CONF-11, CONF-36)."""

from __future__ import annotations

import asyncio
import hashlib

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import fold, trim
from a2a_server.operations.push.delivery import Form, PushOptions
from a2a_server.operations.push.desk import PushDesk
from a2a_server.ports.push import Delivery, Notice
from a2a_server.ports.store import Store

_BATCH = 256


class Bodies:
    """Makes notices of deliveries."""

    def __init__(self, store: Store, options: PushOptions, history_cap: int, *, keep_open_on_input: bool) -> None:
        """`keep_open_on_input`: whether streams go on behind a question, which is then not the last event."""
        self._store = store
        self._keep_open_on_input = keep_open_on_input
        self._options = options
        self._desk = PushDesk(options)
        self._history_cap = history_cap

    async def notice(self, delivery: Delivery) -> Notice | None:
        """None when the event is gone, with its task. Raises `Unsealable`."""
        form = self._options.form_of(delivery.hook.version)
        body = await (self._task(delivery, form) if form.whole else self._event(delivery, form))
        if body is None:
            return None
        return Notice(
            self._desk.open(delivery.hook),
            delivery.task_id,
            delivery.number,
            delivery_id(delivery),
            delivery.attempts + 1,
            form.content_type,
            body,
            delivery.trace,
        )

    async def _event(self, delivery: Delivery, form: Form) -> bytes | None:
        entries = await self._store.entries(delivery.task_id, delivery.number - 1, 1)
        if not entries or entries[0].number != delivery.number:
            return None
        event = entries[0].event
        if form.last is not None and closes_stream(event, keep_open_on_input=self._keep_open_on_input):
            return form.last(event)
        return form.encode(event)

    async def _task(self, delivery: Delivery, form: Form) -> bytes | None:
        """Fold the log up to the event: later ones will be told in their turn."""
        task, at = pb.Task(), 0
        while at < delivery.number:
            entries = await self._store.entries(delivery.task_id, at, min(_BATCH, delivery.number - at))
            if not entries or entries[0].number != at + 1:
                return None
            fold(task, (entry.event for entry in entries))
            at = entries[-1].number
            await asyncio.sleep(0)  # a long log is no reason to keep others waiting
        return form.encode(trim(task, None, cap=self._history_cap))


def delivery_id(delivery: Delivery) -> str:
    """The same for every attempt, whoever makes it and after whatever restart."""
    place = f"{delivery.task_id}\n{delivery.hook.config.id}\n{delivery.number}"
    return hashlib.sha256(place.encode()).hexdigest()[:32]
