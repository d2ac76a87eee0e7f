"""What is kept of the client that made a push config: its version, and all schemes it offered (spec: CONF-34, CONF-36).

Only versions before 1.0 have room for several schemes; operations are called here as their doors call them, and then
through those doors.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.ports.authenticator import ANONYMOUS, Caller
from a2a_server.ports.store import Store
from tests.support import old
from tests.support.door_old import WHERE, Where, old_serving
from tests.support.door_old import say as old_say
from tests.support.house import A2AError, Call, Core, Scope
from tests.support.stage import Stage
from tests.support.world import refused, say, serving

pytestmark = pytest.mark.only_through("grpc", why="what doors call is called itself")

SCOPE = Scope("", ANONYMOUS)
OFFERED = ("Digest", "basic", "Bearer")
FIXED = "webhooks are sent with fixed credentials, as Bearer or Basic take them"


def call(*schemes: str, version: str = "0.3") -> Call:
    return Call(caller=Caller(), scope=SCOPE, version=version, schemes=schemes)


def config(task_id: str = "", *, scheme: str = "Digest", **fields: Any) -> pb.TaskPushNotificationConfig:
    authentication = pb.AuthenticationInfo(scheme=scheme, credentials="c")
    return pb.TaskPushNotificationConfig(
        task_id=task_id, url="https://example.com/hook", authentication=authentication, **fields
    )


async def ask(core: Core, name: str, by: Call, request: Any) -> Any:
    return await cast("Any", core.operations[name])(by, request)


@pytest.mark.req("LPSH-02", "PUSH-01")
@pytest.mark.parametrize("version", ["0.3", "draft"])
async def test_a_config_remembers_who_made_it(store: Store, version: str) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        by = call(*OFFERED, version=version)
        made = await ask(world.core, "CreateTaskPushNotificationConfig", by, config(task.id, id="c"))
        assert made.authentication == pb.AuthenticationInfo(scheme="basic", credentials="****")
        kept = await store.get_config(SCOPE, task.id, "c")
        assert kept is not None
        assert (kept.version, kept.schemes, kept.config.authentication.scheme) == (version, OFFERED, "basic")

        written = await world.stub.CreateTaskPushNotificationConfig(made)  # back, by a client of 1.0
        assert written == made
        again = await store.get_config(SCOPE, task.id, "c")
        assert again == kept._replace(version="1.0", schemes=())


@pytest.mark.req("SEND-07", "LPSH-02")
@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("rpc", ["SendMessage", "SendStreamingMessage"])
async def test_so_does_one_that_comes_with_a_message(store: Store, rpc: str, *, follows: bool) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task_id = (await world.send(say(skill="ask"))).id if follows else ""
        inline = {"task_push_notification_config": config(id="c")}
        request = say(skill="ask", task_id=task_id, configuration=inline)
        if rpc == "SendMessage":
            task_id = (await ask(world.core, rpc, call(*OFFERED), request)).task.id
        else:
            batches = [batch async for batch in cast("Any", world.core.operations[rpc])(call(*OFFERED), request)]
            task_id = batches[0][0].event.task.id
        kept = await store.get_config(SCOPE, task_id, "c")
        assert kept is not None
        assert (kept.version, kept.schemes, kept.config.authentication.scheme) == ("0.3", OFFERED, "basic")


@pytest.mark.req("PUSH-01")
async def test_without_authentication_there_is_no_scheme_to_choose(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        bare = pb.TaskPushNotificationConfig(task_id=task.id, id="c", url="https://example.com/hook")
        assert await ask(world.core, "CreateTaskPushNotificationConfig", call(), bare) == bare


@pytest.mark.req("LPSH-02", "GEN-03", "ERRS-05")
async def test_when_no_scheme_can_be_served_nothing_happens(store: Store) -> None:
    stage = Stage()
    async with serving(stage.agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        by, none = call("Digest", "a b", "NTLM"), f"none of 'Digest', 'a b', 'NTLM' can be served: {FIXED}"
        with pytest.raises(A2AError) as caught:
            await ask(world.core, "CreateTaskPushNotificationConfig", by, config(task.id))
        assert [(fault.field, fault.description) for fault in caught.value.violations] == [
            ("authentication.schemes", none)
        ]
        inline = say(configuration={"task_push_notification_config": config()})
        with pytest.raises(A2AError) as caught:
            await ask(world.core, "SendMessage", by, inline)
        prefix = "configuration.task_push_notification_config.authentication"
        assert [(fault.field, fault.description) for fault in caught.value.violations] == [(f"{prefix}.schemes", none)]

        one = f"'Digest' cannot be served: {FIXED}"
        refusal = await refused(world.stub.CreateTaskPushNotificationConfig(config(task.id)))
        assert refusal.fields == {"authentication.scheme": one}
        refusal = await refused(world.stub.SendMessage(inline))
        assert refusal.fields == {f"{prefix}.scheme": one}
        assert await store.configs(SCOPE, task.id, "", 10) == []
    assert len(stage.turns) == 1


# -- through the doors of 0.3


@pytest.mark.req("LPSH-02", "ERRS-05")
@pytest.mark.parametrize("where", WHERE)
async def test_json_of_0_3_brings_its_list_along(store: Store, where: Where) -> None:
    hook: dict[str, Any] = {"url": "https://example.com/hook", "id": "c"}
    async with old_serving(Stage().agent, where, store=store, push_notifications=True) as (_, client):
        task = await client.call("message/send", old_say(skill="ask"))
        told = {
            "taskId": task["id"],
            "pushNotificationConfig": {**hook, "authentication": {"schemes": ["NTLM", "Digest"]}},
        }
        error = await client.fault("tasks/pushNotificationConfig/set", told)
        wrong = {"field": "pushNotificationConfig.authentication.schemes"}
        assert error["data"]["violations"] == [
            {**wrong, "description": f"none of 'NTLM', 'Digest' can be served: {FIXED}"}
        ]

        told["pushNotificationConfig"]["authentication"]["schemes"] = list(OFFERED)
        made = await client.call("tasks/pushNotificationConfig/set", told)
        assert made["pushNotificationConfig"]["authentication"] == {"schemes": ["basic"]}
        kept = await store.get_config(SCOPE, task["id"], "c")
        assert kept is not None
        assert (kept.version, kept.schemes) == ("0.3", OFFERED)


@pytest.mark.req("LPSH-02", "ERRS-05")
async def test_grpc_of_0_3_brings_its_list_along(store: Store) -> None:
    authentication = v03.AuthenticationInfo(schemes=["NTLM", "Digest"])
    hook = v03.PushNotificationConfig(url="https://example.com/hook", authentication=authentication)
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        refusal = await refused(world.old.SendMessage(old.tell(configuration={"push_notification": hook})))
        field = "configuration.push_notification.authentication.schemes"
        assert refusal.fields == {field: f"none of 'NTLM', 'Digest' can be served: {FIXED}"}

        hook.id, hook.authentication.schemes[:] = "c", OFFERED
        task = await old.send(world, old.tell(skill="ask", configuration={"push_notification": hook}))
        kept = await store.get_config(SCOPE, task.id, "c")
        assert kept is not None
        assert (kept.version, kept.schemes, kept.config.authentication.scheme) == ("0.3", OFFERED, "basic")
