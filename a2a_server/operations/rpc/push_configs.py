"""The four operations on push configs (spec: PUSH). `push/` delivers to them."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.empty_pb2 import Empty

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.paging import seal_after, unseal_after
from a2a_server.domain.validation import check_push_create, check_push_list, check_request, may_exist
from a2a_server.domain.webhooks import choose_scheme
from a2a_server.operations.call import Call
from a2a_server.operations.push.configs import MASK, secrets_of
from a2a_server.operations.services import Capabilities, Services
from a2a_server.ports.journal import AuditKind
from a2a_server.ports.push import PushConfig
from a2a_server.protocol.errors import task_not_found

_DEFAULT_PAGE = 50


@dataclass(frozen=True)
class ConfigOperation:
    """The attributes that all four need."""

    capabilities: Capabilities
    services: Services


class CreateTaskPushNotificationConfig(ConfigOperation):
    """Creates or replaces a config by its id, and stores the client's version with it (PUSH-02, PUSH-03, CONF-36)."""

    async def __call__(self, call: Call, request: pb.TaskPushNotificationConfig, /) -> pb.TaskPushNotificationConfig:
        config_intake = self.capabilities.require_push(call)
        check_push_create(request)
        config = pb.TaskPushNotificationConfig()
        config.CopyFrom(request)
        config.id = config.id or self.services.ids.new()
        config.tenant = call.scope.tenant
        choose_scheme(config, call.schemes)
        if not may_exist(config.task_id):
            raise task_not_found(config.task_id)
        config_intake.check(config)
        replaced = await config_intake.find_replaced(self.services.store, call.scope, config.task_id, config)
        await config_intake.challenge(config, call)
        config_intake.seal(config, replaced)
        if not await self.services.store.put_config(call.scope, PushConfig(config, call.version, call.schemes)):
            raise task_not_found(config.task_id)
        self.services.audit_change(AuditKind.CONFIG_CREATED, call, config.task_id, config.id)
        if self.services.relay is not None:
            self.services.relay.wake()  # deliveries of a replaced config are due at once
        return masked(config)


class GetTaskPushNotificationConfig(ConfigOperation):
    """Returns a config by task id and config id. A missing config gets the same error as a missing task (PUSH-07)."""

    async def __call__(
        self, call: Call, request: pb.GetTaskPushNotificationConfigRequest, /
    ) -> pb.TaskPushNotificationConfig:
        self.capabilities.require_push(call)
        check_request(request, request.tenant)
        known = may_exist(request.task_id) and may_exist(request.id)
        hook = await self.services.store.get_config(call.scope, request.task_id, request.id) if known else None
        if hook is None:
            raise task_not_found(request.task_id, request.id)
        return masked(hook.config)


class ListTaskPushNotificationConfigs(ConfigOperation):
    """Lists the configs of a task, in pages if the client wants (PUSH-08)."""

    async def __call__(
        self, call: Call, request: pb.ListTaskPushNotificationConfigsRequest, /
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        self.capabilities.require_push(call)
        check_push_list(request)
        secret, size = await self.services.store.secret(), request.page_size or _DEFAULT_PAGE
        task_id, token = request.task_id, request.page_token
        after = unseal_after(secret, call.scope, task_id, token) if token else ""
        known = may_exist(task_id)
        hooks = await self.services.store.configs(call.scope, task_id, after, size + 1) if known else None
        if hooks is None:
            raise task_not_found(task_id)
        more = seal_after(secret, call.scope, task_id, hooks[size - 1].config.id) if len(hooks) > size else ""
        shown = [masked(hook.config) for hook in hooks[:size]]
        return pb.ListTaskPushNotificationConfigsResponse(configs=shown, next_page_token=more)


class DeleteTaskPushNotificationConfig(ConfigOperation):
    """Removes a config. It is no error if the config does not exist (PUSH-10)."""

    async def __call__(self, call: Call, request: pb.DeleteTaskPushNotificationConfigRequest, /) -> Empty:
        self.capabilities.require_push(call)
        check_request(request, request.tenant)
        known = may_exist(request.task_id)
        if not (known and await self.services.store.delete_config(call.scope, request.task_id, request.id)):
            raise task_not_found(request.task_id)
        self.services.audit_change(AuditKind.CONFIG_DELETED, call, request.task_id, request.id)
        if self.services.relay is not None:
            await self.services.relay.forget(request.task_id, request.id)
        return Empty()


def masked(config: pb.TaskPushNotificationConfig) -> pb.TaskPushNotificationConfig:
    """Replace secrets by a mask: answers only show that there are some (PUSH-13, SECR-03)."""
    shown = pb.TaskPushNotificationConfig()
    shown.CopyFrom(config)
    for holder, field, _ in secrets_of(shown):
        setattr(holder, field, MASK)
    return shown
