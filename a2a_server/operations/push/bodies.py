"""The body of a webhook: the event, or the task as the event left it (spec: HOOK-01, LPSH-03, CONF-11, CONF-36)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import fold, trim
from a2a_server.operations.push.configs import ConfigIntake
from a2a_server.operations.push.options import PushOptions, WebhookForm
from a2a_server.ports.push import Delivery, Notice
from a2a_server.ports.store import Store
from a2a_server.protocol.names import CURRENT

_BATCH = 256


class WebhookBodies:
    """Makes a notice for a delivery."""

    def __init__(self, store: Store, options: PushOptions, history_cap: int, *, keep_open_on_input: bool) -> None:
        """`keep_open_on_input`: whether streams stay open after a question, so that it is not the last event."""
        self._store = store
        self._keep_open_on_input = keep_open_on_input
        self._forms = options.forms
        self._configs = ConfigIntake(options)
        self._history_cap = history_cap

    async def notice(self, delivery: Delivery) -> Notice | None:
        """None when the event is gone, with its task. Raises `Unsealable`."""
        form = form_of(self._forms, delivery.hook.version)
        body = await (self._task(delivery, form) if form.whole else self._event(delivery, form))
        if body is None:
            return None
        return Notice(
            self._configs.open(delivery.hook),
            delivery.task_id,
            delivery.number,
            delivery_id(delivery),
            delivery.attempts + 1,
            form.content_type,
            body,
            delivery.trace,
        )

    async def _event(self, delivery: Delivery, form: WebhookForm) -> bytes | None:
        entries = await self._store.entries(delivery.task_id, delivery.number - 1, 1)
        if not entries or entries[0].number != delivery.number:
            return None
        event = entries[0].event
        if form.last is not None and closes_stream(event, keep_open_on_input=self._keep_open_on_input):
            return form.last(event)
        return form.encode(event)

    async def _task(self, delivery: Delivery, form: WebhookForm) -> bytes | None:
        """The task after this event and before any later one: fold the log up to here."""
        task, at = pb.Task(), 0
        while at < delivery.number:
            entries = await self._store.entries(delivery.task_id, at, min(_BATCH, delivery.number - at))
            if not entries or entries[0].number != at + 1:
                return None
            fold(task, (entry.event for entry in entries))
            at = entries[-1].number
            await asyncio.sleep(0)  # a long log must not hold up other work
        return form.encode(trim(task, None, cap=self._history_cap))


def form_of(forms: Mapping[str, WebhookForm], version: str) -> WebhookForm:
    return forms.get(version) or forms[CURRENT]


def delivery_id(delivery: Delivery) -> str:
    """The same id for every attempt, also after a restart or by another process."""
    place = f"{delivery.task_id}\n{delivery.hook.config.id}\n{delivery.number}"
    return hashlib.sha256(place.encode()).hexdigest()[:32]
