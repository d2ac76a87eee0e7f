"""What a webhook tells: the event, or the task as the event left it (spec: HOOK-01, LPSH-03, CONF-11, CONF-36)."""

from __future__ import annotations

import asyncio
import hashlib

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import fold, trim
from a2a_server.operations.push.delivery import Delivery, Form
from a2a_server.operations.push.desk import PushDesk
from a2a_server.ports.hooks import Debt
from a2a_server.ports.push_sender import Notice
from a2a_server.ports.store import Store

_BATCH = 256


class Bodies:
    """Makes notices of debts."""

    def __init__(self, store: Store, delivery: Delivery, history_cap: int, *, keep_open_on_input: bool) -> None:
        """`keep_open_on_input`: whether streams go on behind a question, which is then not the last event."""
        self._store = store
        self._keep_open_on_input = keep_open_on_input
        self._delivery = delivery
        self._desk = PushDesk(delivery)
        self._history_cap = history_cap

    async def notice(self, debt: Debt) -> Notice | None:
        """None when the event is gone, with its task. Raises `Unsealable`."""
        form = self._delivery.form_of(debt.hook.version)
        body = await (self._task(debt, form) if form.whole else self._event(debt, form))
        if body is None:
            return None
        return Notice(
            self._desk.open(debt.hook),
            debt.task_id,
            debt.number,
            delivery_id(debt),
            debt.attempts + 1,
            form.content_type,
            body,
            debt.trace,
        )

    async def _event(self, debt: Debt, form: Form) -> bytes | None:
        entries = await self._store.entries(debt.task_id, debt.number - 1, 1)
        if not entries or entries[0].number != debt.number:
            return None
        event = entries[0].event
        if form.last is not None and closes_stream(event, keep_open_on_input=self._keep_open_on_input):
            return form.last(event)
        return form.encode(event)

    async def _task(self, debt: Debt, form: Form) -> bytes | None:
        """Fold the log up to the event: later ones will be told in their turn."""
        task, at = pb.Task(), 0
        while at < debt.number:
            entries = await self._store.entries(debt.task_id, at, min(_BATCH, debt.number - at))
            if not entries or entries[0].number != at + 1:
                return None
            fold(task, (entry.event for entry in entries))
            at = entries[-1].number
            await asyncio.sleep(0)  # a long log is no reason to keep others waiting
        return form.encode(trim(task, None, cap=self._history_cap))


def delivery_id(debt: Debt) -> str:
    """The same for every attempt, whoever makes it and after whatever restart."""
    place = f"{debt.task_id}\n{debt.hook.config.id}\n{debt.number}"
    return hashlib.sha256(place.encode()).hexdigest()[:32]
