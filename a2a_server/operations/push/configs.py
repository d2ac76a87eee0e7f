"""Accepts push configs, and makes the bodies of their webhooks.

`ConfigIntake` checks a config, challenges its receiver and seals its secrets (spec: SSRF-02, PAID-06). `WebhookBodies`
makes the body of a webhook: the event, or the task as the event left it (spec: HOOK-01, LPSH-03, CONF-11, CONF-36).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.events import closes_stream
from a2a_server.domain.reducer import fold, trim
from a2a_server.domain.scope import Scope, Shares
from a2a_server.domain.webhooks import site_of
from a2a_server.operations.call import Call
from a2a_server.operations.push.push_options import PushOptions, WebhookForm
from a2a_server.ports.push import Delivery, Notice, PushConfig
from a2a_server.ports.store import Store
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse, task_not_found
from a2a_server.protocol.names import CURRENT

_BATCH = 256
_LONG = 64 * 1024

MASK = "****"
INLINE = "configuration.task_push_notification_config."

MOST_CONFIGS = 100
"""Push configs of one task: each of them gets every event (PUSH-05, LIMT-01)."""


class ConfigIntake:
    """Accepts push configs, and decrypts their secrets for sending."""

    def __init__(self, options: PushOptions) -> None:
        self._sender = options.sender
        self._sealer = options.sealer
        self._challenges = options.challenge
        self._asked = Shares(options.patience.concurrency)
        self._most_per_host = options.patience.configs_per_host
        self._most_configs = options.patience.configs_per_owner
        self._most_hosts = options.patience.hosts_per_owner

    def check(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> None:
        """Refuse a config that the sender would never deliver to. This comes before the call has any effect."""
        if faults := self._sender.faults(config, prefix):
            refuse(faults)

    async def find_replaced(
        self, store: Store, scope: Scope, task_id: str, config: pb.TaskPushNotificationConfig, prefix: str = ""
    ) -> PushConfig | None:
        """Return the config that this one would replace. Refuse too many for the task, its host, or the owner."""
        known = await _find_known(store, scope, task_id, config.id) if task_id else None
        host, most = site_of(config.url), self._most_per_host
        if known is not None and site_of(known.config.url) == host:
            return known
        there = await store.count_configs(scope.owner, host, most)
        if there >= most:
            text = f"must not lead to {host}: {most} of your push configs do, and no more may. Delete one first"
            refuse([Violation(f"{prefix}url", text)], reason=Reason.QUOTA_EXCEEDED)
        most = self._most_hosts
        if not there and await store.count_hosts(scope.owner, most) >= most:
            text = (
                f"must not lead to {host}: your push configs lead to {most} hosts, and push.hosts_per_owner allows no "
                "more. Delete those for one of them first"
            )
            refuse([Violation(f"{prefix}url", text)], reason=Reason.QUOTA_EXCEEDED)
        most = self._most_configs
        if known is None and await store.count_configs(scope.owner, None, most) >= most:
            text = f"You have {most} push configs, and push.configs_per_owner allows no more. Delete one first."
            raise A2AError(Reason.QUOTA_EXCEEDED, text, metadata={"limit": "push.configs_per_owner"})
        return known

    async def challenge(self, config: pb.TaskPushNotificationConfig, call: Call, prefix: str = "") -> None:
        """Refuse a receiver that does not confirm that it wants webhooks, if a challenge is configured."""
        hook = PushConfig(config, call.version, call.schemes)
        if self._challenges and not await self._confirms(hook, call.scope.owner):
            text = "must answer GET with ?validationToken=… by 200 and the token, to show that it wants webhooks"
            refuse([Violation(f"{prefix}url", text)])

    async def _confirms(self, hook: PushConfig, owner: str) -> bool:
        if not self._asked.room(owner):
            text = f"{self._asked.taken} receivers are being asked whether they want webhooks. Try again later."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)
        self._asked.take(owner)
        try:
            return await self._sender.challenge(hook, owner)
        finally:
            self._asked.leave(owner)

    def seal(self, config: pb.TaskPushNotificationConfig, known: PushConfig | None) -> None:
        """Seal the secrets of a config whose ids are set.

        A client may write back what it has read, with masks for secrets. Then the secrets of `known` stay.
        """
        old = {} if known is None else {field: secret for _, field, secret in secrets_of(known.config)}
        for holder, field, secret in secrets_of(config):
            kept = known is not None and secret == MASK
            setattr(
                holder, field, old.get(field, "") if kept else self._sealer.seal(secret, _seal_context(config, field))
            )

    def open(self, hook: PushConfig) -> PushConfig:
        """Return a copy with its secrets in clear text, for the sender only. Raises `Unsealable`."""
        config = pb.TaskPushNotificationConfig()
        config.CopyFrom(hook.config)
        for holder, field, sealed in secrets_of(config):
            setattr(holder, field, self._sealer.open(sealed, _seal_context(config, field)))
        return hook._replace(config=config)


def secrets_of(config: pb.TaskPushNotificationConfig) -> Sequence[tuple[Message, str, str]]:
    """Return the secrets that a config has, each with the message and the name of the field that holds it."""
    told = config.authentication.credentials
    found = (config, "token", config.token), (config.authentication, "credentials", told)
    return [secret for secret in found if secret[2]]


def _seal_context(config: pb.TaskPushNotificationConfig, field: str) -> str:
    """Return the context of a secret, which is needed to decrypt it. So it cannot be used in another config."""
    return f"{config.task_id}\n{config.id}\n{field}"


async def _find_known(store: Store, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
    hooks = await store.configs(scope, task_id, "", MOST_CONFIGS)
    if hooks is None:
        raise task_not_found(task_id)
    known = next((hook for hook in hooks if hook.config.id == config_id), None)
    if known is None and len(hooks) == MOST_CONFIGS:
        text = f"The task has {MOST_CONFIGS} push configs, which is the most it may have. Delete one first."
        raise A2AError(Reason.QUOTA_EXCEEDED, text, metadata={"taskId": task_id})
    return known


class WebhookBodies:
    """Makes the webhook of a delivery."""

    def __init__(self, store: Store, options: PushOptions, history_cap: int, *, keep_open_on_input: bool) -> None:
        """`keep_open_on_input`: whether streams stay open after a question, which then is not their last event."""
        self._store = store
        self._keep_open_on_input = keep_open_on_input
        self._forms = options.forms
        self._configs = ConfigIntake(options)
        self._history_cap = history_cap
        self._long = asyncio.Lock()

    async def notice(self, delivery: Delivery) -> Notice | None:
        """Return the webhook; None if the event was removed, with its task. Raises `Unsealable`."""
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
            delivery.scope.owner,
        )

    async def _event(self, delivery: Delivery, form: WebhookForm) -> bytes | None:
        entries = await self._store.entries(delivery.task_id, delivery.number - 1, 1)
        if not entries or entries[0].number != delivery.number:
            return None
        event, encode = entries[0].event, form.encode
        if form.last is not None and closes_stream(event, keep_open_on_input=self._keep_open_on_input):
            encode = form.last
        return await self._written(encode, event, len(entries[0].wire))

    async def _task(self, delivery: Delivery, form: WebhookForm) -> bytes | None:
        """Return the task as this event left it, by applying the log up to the event."""
        task, at, size = pb.Task(), 0, 0
        while at < delivery.number:
            entries = await self._store.entries(delivery.task_id, at, min(_BATCH, delivery.number - at))
            if not entries or entries[0].number != at + 1:
                return None
            fold(task, (entry.event for entry in entries))
            at, size = entries[-1].number, size + sum([len(entry.wire) for entry in entries])
            await asyncio.sleep(0)  # let other tasks run while a long log is read
        return await self._written(form.encode, trim(task, None, cap=self._history_cap), size)

    async def _written(self, encode: Callable[[Message], bytes], message: Message, size: int) -> bytes:
        """Encode a message; a long one in a thread, one at a time, so that it does not block the event loop."""
        if size <= _LONG:
            return encode(message)
        async with self._long:
            return await asyncio.to_thread(encode, message)


def form_of(forms: Mapping[str, WebhookForm], version: str) -> WebhookForm:
    return forms.get(version) or forms[CURRENT]


def delivery_id(delivery: Delivery) -> str:
    """Return the delivery's id. It is the same for every attempt, also after a restart or in another process."""
    place = f"{delivery.task_id}\n{delivery.hook.config.id}\n{delivery.number}"
    return hashlib.sha256(place.encode()).hexdigest()[:32]
