"""What a push config passes before it is kept: the sender's checks, a challenge, a seal (spec: SSRF-02, PAID-06)."""

from __future__ import annotations

from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.call import Call
from a2a_server.operations.push.delivery import PushOptions
from a2a_server.ports.push import PushConfig
from a2a_server.protocol.errors import Violation, refuse

MASK = "****"
INLINE = "configuration.task_push_notification_config."


class PushDesk:
    """Takes configs in, and gives them out again to be sent with."""

    def __init__(self, options: PushOptions) -> None:
        self._sender = options.sender
        self._sealer = options.sealer
        self._challenges = options.challenge

    def check(self, config: pb.TaskPushNotificationConfig, prefix: str = "") -> None:
        """Refuse what would never be sent, before anything has happened."""
        if faults := self._sender.faults(config, prefix):
            refuse(faults)

    async def challenge(self, config: pb.TaskPushNotificationConfig, call: Call, prefix: str = "") -> None:
        """Refuse an address whose owner does not answer for it, if that is asked for."""
        if self._challenges and not await self._sender.challenge(PushConfig(config, call.version, call.schemes)):
            text = "must answer GET with ?validationToken=… by 200 and the token, to show that it wants webhooks"
            refuse([Violation(f"{prefix}url", text)])

    def seal(self, config: pb.TaskPushNotificationConfig, known: PushConfig | None) -> None:
        """Make a config fit to be kept; its ids are set.

        A client that writes back what it has read must not replace a secret by its mask: `known` has it still.
        """
        old = known.config if known is not None else config
        if known is not None and config.token == MASK:
            config.token = old.token
        else:
            config.token = self._sealer.seal(config.token, _place(config, "token"))
        if not config.HasField("authentication"):
            return
        if known is not None and config.authentication.credentials == MASK:
            config.authentication.credentials = old.authentication.credentials
        else:
            sealed = self._sealer.seal(config.authentication.credentials, _place(config, "credentials"))
            config.authentication.credentials = sealed

    def open(self, hook: PushConfig) -> PushConfig:
        """A copy that holds its secrets in clear, for the sender alone. Raises `Unsealable`."""
        config = pb.TaskPushNotificationConfig()
        config.CopyFrom(hook.config)
        config.token = self._sealer.open(config.token, _place(config, "token"))
        if config.HasField("authentication"):
            sealed = config.authentication.credentials
            config.authentication.credentials = self._sealer.open(sealed, _place(config, "credentials"))
        return hook._replace(config=config)


def _place(config: pb.TaskPushNotificationConfig, field: str) -> str:
    """Where a secret stands, so that it opens nowhere else."""
    return f"{config.task_id}\n{config.id}\n{field}"
