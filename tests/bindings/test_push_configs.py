"""Push configs: create, get, list, delete, and those that come with a message (spec: PUSH, CAPA-02, SEND-07)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.ports.authenticator import ANONYMOUS
from a2a_server.ports.push import PushConfig
from a2a_server.ports.store import Store
from tests.bindings.actors import until
from tests.support.deliveries import Pigeonhole, deliver
from tests.support.door_draft import beside, draft_serving
from tests.support.door_draft import request as draft_request
from tests.support.door_old import request as old_request
from tests.support.door_old import say as old_say
from tests.support.house import MOST_CONFIGS, Scope
from tests.support.stage import Stage
from tests.support.world import ByHeader, Refusal, World, as_user, refused, say, serving

URL = "https://example.com/hook"
GONE = ("NOT_FOUND", "TASK_NOT_FOUND", "Push notification config not found.")
NO_TASK = ("NOT_FOUND", "TASK_NOT_FOUND", "Task not found.")
WRONG = "INVALID_ARGUMENT"


def config(task_id: str = "", **fields: Any) -> pb.TaskPushNotificationConfig:
    return pb.TaskPushNotificationConfig(task_id=task_id, **{"url": URL, **fields})


async def create(world: World, task_id: str, **fields: Any) -> pb.TaskPushNotificationConfig:
    stored: pb.TaskPushNotificationConfig = await world.stub.CreateTaskPushNotificationConfig(config(task_id, **fields))
    return stored


async def get(world: World, task_id: str, config_id: str) -> pb.TaskPushNotificationConfig:
    request = pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    stored: pb.TaskPushNotificationConfig = await world.stub.GetTaskPushNotificationConfig(request)
    return stored


async def listed(world: World, task_id: str, **fields: Any) -> pb.ListTaskPushNotificationConfigsResponse:
    request = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id, **fields)
    answer: pb.ListTaskPushNotificationConfigsResponse = await world.stub.ListTaskPushNotificationConfigs(request)
    return answer


async def delete(world: World, task_id: str, config_id: str) -> None:
    await world.stub.DeleteTaskPushNotificationConfig(
        pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    )


def told(refusal: Refusal) -> tuple[str, str, str]:
    return refusal.code.name, refusal.reason, refusal.message


@pytest.mark.req("PUSH-01", "PUSH-02", "PUSH-05", "PUSH-06", "PUSH-08", "GRPC-02")
async def test_a_task_holds_several_configs(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))

        named = await create(world, task.id, id="mine")
        unnamed = await create(world, task.id, url="http://example.com:8080/a?b=c#d")

        assert named == config(task.id, id="mine")
        assert unnamed.id
        assert unnamed == config(task.id, id=unnamed.id, url="http://example.com:8080/a?b=c#d")
        for one in (named, unnamed):
            assert await get(world, task.id, one.id) == one
        found = await listed(world, task.id)
        assert sorted(found.configs, key=lambda one: one.id) == sorted([named, unnamed], key=lambda one: one.id)
        assert found.next_page_token == ""


@pytest.mark.req("PUSH-03", "PUSH-05")
async def test_the_same_id_replaces_within_one_task_only(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        one, two = await world.send(say(skill="ask")), await world.send(say(skill="ask"))
        await create(world, one.id, id="x", token="secret")
        await create(world, two.id, id="x", url="https://two.example.com/")

        await create(world, one.id, id="x", url="https://new.example.com/")

        assert list((await listed(world, one.id)).configs) == [config(one.id, id="x", url="https://new.example.com/")]
        assert list((await listed(world, two.id)).configs) == [config(two.id, id="x", url="https://two.example.com/")]


@pytest.mark.req("PUSH-13", "SECR-03")
async def test_secrets_are_masked_in_every_answer_and_kept_in_the_store(store: Store) -> None:
    secret = pb.AuthenticationInfo(scheme="Bearer", credentials="s3cr3t")
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        created = await create(world, task.id, id="c", token="t0k3n", authentication=secret)

        answers = [created, await get(world, task.id, "c"), *(await listed(world, task.id)).configs]
        for answer in answers:
            assert answer.token == "****"
            assert answer.authentication == pb.AuthenticationInfo(scheme="Bearer", credentials="****")
        bare = await create(world, task.id, id="bare")
        assert not bare.token
        assert not bare.HasField("authentication")

        kept = await store.get_config(Scope("", ANONYMOUS), task.id, "c")
        assert kept is not None
        assert (kept.config.token, kept.config.authentication.credentials) == ("t0k3n", "s3cr3t")


@pytest.mark.req("PUSH-09", "PUSH-10")
async def test_deleting_is_for_good_and_may_be_repeated(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        kept, gone = await create(world, task.id), await create(world, task.id)

        for _ in range(2):
            await delete(world, task.id, gone.id)
            assert list((await listed(world, task.id)).configs) == [kept]
            assert told(await refused(get(world, task.id, gone.id))) == GONE
        await delete(world, task.id, "never-was")
        await delete(world, task.id, "x" * 10_000)


@pytest.mark.req("PUSH-07", "PUSH-11", "ERRS-01", "ERRS-03")
@pytest.mark.parametrize("task_id", ["nope", "x" * 10_000, "a/b\x00"])
async def test_what_does_not_exist_is_a_task_not_found(store: Store, task_id: str) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        assert told(await refused(get(world, task.id, "nope"))) == GONE
        for attempt in (create(world, task_id), listed(world, task_id), delete(world, task_id, "c")):
            refusal = await refused(attempt)
            assert told(refusal) == NO_TASK
            assert refusal.metadata == {"taskId": task_id[:200]}
        refusal = await refused(get(world, task_id, "c"))
        assert told(refusal) == GONE
        assert refusal.metadata == {"taskId": task_id[:200], "configId": "c"}


@pytest.mark.req("PUSH-12")
async def test_configs_outlive_turns_and_restarts(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        created = await create(world, task.id)
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        assert await get(world, task.id, created.id) == created
        await world.send(say("red", task_id=task.id))
        assert await get(world, task.id, created.id) == created


@pytest.mark.req("PUSH-04", "PUSH-14", "GEN-04", "ERRS-05")
@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"url": ""}, {"url"}),
        ({"url": "ftp://example.com/"}, {"url"}),
        ({"url": "https://exam ple.com/"}, {"url"}),
        ({"url": "/hook"}, {"url"}),
        ({"url": "https://" + "x" * 3000}, {"url"}),
        ({"id": "x" * 300, "token": "a\nb", "tenant": "a/b"}, {"id", "token", "tenant"}),
        ({"authentication": pb.AuthenticationInfo()}, {"authentication.scheme"}),
        (
            {"authentication": pb.AuthenticationInfo(scheme="a\rb", credentials="x\ny")},
            {"authentication.scheme", "authentication.credentials"},
        ),
    ],
)
async def test_faults_of_a_config(fields: dict[str, Any], faults: set[str]) -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        refusal = await refused(create(world, **{"task_id": task.id, **fields}))
        assert not (await listed(world, task.id)).configs

    assert refusal.code.name == WRONG
    assert set(refusal.fields) == faults


@pytest.mark.req("GEN-04", "PUSH-04")
@pytest.mark.not_through("rest", why="its paths cannot carry an empty id")
async def test_every_operation_needs_its_ids() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        assert set((await refused(get(world, "", ""))).fields) == {"task_id", "id"}
        assert set((await refused(delete(world, "", ""))).fields) == {"task_id", "id"}
        assert set((await refused(listed(world, ""))).fields) == {"task_id"}
        assert set((await refused(create(world, ""))).fields) == {"task_id"}


# -- pages


@pytest.mark.req("PUSH-08")
@pytest.mark.parametrize("size", [0, 1, 3, 7, 8, 100])
async def test_pages_hold_every_config_once(store: Store, size: int) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        made = {(await create(world, task.id)).id for _ in range(7)}

        seen, token, pages = [], "", 0
        while True:
            answer = await listed(world, task.id, page_size=size, page_token=token)
            seen += [one.id for one in answer.configs]
            pages += 1
            if not (token := answer.next_page_token):
                break

        assert len(seen) == 7
        assert set(seen) == made
        assert pages == -(-7 // (size or 50))


@pytest.mark.req("PUSH-08", "ERRS-05")
async def test_page_sizes_and_tokens_are_checked() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        one, two = await world.send(say(skill="ask")), await world.send(say(skill="ask"))
        for task in (one, one, two, two):
            await create(world, task.id)
        token = (await listed(world, one.id, page_size=1)).next_page_token
        tasks = await world.stub.ListTasks(pb.ListTasksRequest(page_size=1))

        for size in (-1, 101):
            refusal = await refused(listed(world, one.id, page_size=size))
            assert refusal.fields == {"page_size": f"must lie in 1..100, got {size}"}
        nonsense = await refused(listed(world, one.id, page_token="nonsense"))
        assert list(nonsense.fields) == ["page_token"]
        assert await refused(listed(world, two.id, page_token=token)) == nonsense
        assert await refused(listed(world, one.id, page_token=token[:-1])) == nonsense
        assert await refused(listed(world, one.id, page_token=tasks.next_page_token)) == nonsense
        assert await refused(world.stub.ListTasks(pb.ListTasksRequest(page_token=token))) == nonsense


# -- configs that come with a message


@pytest.mark.req("SEND-07", "PUSH-14")
async def test_a_config_that_comes_with_a_message_is_there_before_the_agent_begins(store: Store) -> None:
    stage = Stage()
    inline = {"task_push_notification_config": config(token="t"), "return_immediately": True}
    async with serving(stage.agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="hold", configuration=inline))
        found = list((await listed(world, task.id)).configs)
        assert found == [config(task.id, id=found[0].id, token="****")]
        assert found[0].id

        joined = {"task_push_notification_config": config(task.id, id="joined"), "return_immediately": True}
        await world.send(say("more", task_id=task.id, configuration=joined))
        assert await get(world, task.id, "joined") == config(task.id, id="joined")
        stage.release.set()


@pytest.mark.req("SEND-07")
async def test_a_config_may_come_with_an_answer(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        inline = {"task_push_notification_config": config(id="late")}
        await world.send(say("red", task_id=task.id, configuration=inline))
        assert await get(world, task.id, "late") == config(task.id, id="late")


@pytest.mark.req("SEND-07")
async def test_a_config_that_comes_with_a_streamed_message_is_there_with_the_first_item() -> None:
    stage = Stage()
    async with serving(stage.agent, push_notifications=True) as world:
        inline = {"task_push_notification_config": config(id="s")}
        async for item in world.stub.SendStreamingMessage(say(skill="hold", configuration=inline)):
            if item.HasField("task"):
                assert await get(world, item.task.id, "s") == config(item.task.id, id="s")
                stage.release.set()


@pytest.mark.req("SEND-07", "SEND-09")
async def test_a_config_for_small_talk_is_no_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        answer = await world.stub.SendMessage(
            say(skill="chat", configuration={"task_push_notification_config": config()})
        )
        assert answer.message.parts[0].text == "you said hello"
    assert "abandoned" not in capsys.readouterr().out


@pytest.mark.req("SEND-07", "PUSH-04", "PUSH-14", "TENA-03", "GEN-03")
@pytest.mark.parametrize(
    ("inline", "faults"),
    [
        (config(url=""), {"url"}),
        (config(url="nowhere"), {"url"}),
        (config("another-task"), {"task_id"}),
        (config(tenant="another-tenant"), {"tenant"}),
    ],
)
async def test_a_wrong_config_keeps_its_message_from_the_agent(
    inline: pb.TaskPushNotificationConfig, faults: set[str]
) -> None:
    stage = Stage()
    async with serving(stage.agent, push_notifications=True) as world:
        request = say(configuration={"task_push_notification_config": inline})
        refusal = await refused(world.send(request))
        assert set(refusal.fields) == {f"configuration.task_push_notification_config.{name}" for name in faults}
        assert refusal.code.name == WRONG
        assert await world.stub.ListTasks(pb.ListTasksRequest()) == pb.ListTasksResponse(page_size=50)
    assert not stage.turns


@pytest.mark.req("TENA-03", "SEND-07")
async def test_a_config_carries_the_tenant_of_its_task() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        inline = {"task_push_notification_config": config(id="i")}
        task = await world.send(say(skill="ask", tenant="north", configuration=inline))
        request = pb.GetTaskPushNotificationConfigRequest(tenant="north", task_id=task.id, id="i")
        assert await world.stub.GetTaskPushNotificationConfig(request) == config(task.id, id="i", tenant="north")


# -- servers that deliver nothing


@pytest.mark.req("CAPA-02", "CAPA-05", "ERRS-01", "ERRS-03", "CARD-08")
async def test_without_the_capability_every_form_is_refused() -> None:
    stage = Stage()
    async with serving(stage.agent) as world:
        task = await world.send(say(skill="ask"))
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())
        assert card.capabilities.HasField("push_notifications")
        assert not card.capabilities.push_notifications
        inline = say(configuration={"task_push_notification_config": config()})
        for attempt in (
            create(world, task.id),
            create(world, "nope"),
            create(world, "nope", url=""),
            get(world, task.id, "c"),
            listed(world, task.id),
            delete(world, task.id, "c"),
            world.send(inline),
            world.stream(inline),
            world.send(say(task_id=task.id, configuration={"task_push_notification_config": config()})),
        ):
            refusal = await refused(attempt)
            assert told(refusal) == (
                "FAILED_PRECONDITION",
                "PUSH_NOTIFICATION_NOT_SUPPORTED",
                "This server does not deliver push notifications.",
            )
            assert refusal.domain == "a2a-protocol.org"
        assert (await world.get(task.id)) == task
    assert len(stage.turns) == 1


@pytest.mark.req("PUSH-05", "LIMT-01")
async def test_a_task_has_room_for_a_hundred_configs(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        for number in range(MOST_CONFIGS):
            await create(world, task.id, id=f"c{number:03}")
        one_more = {"task_push_notification_config": config()}
        for attempt in (create(world, task.id), world.send(say(task_id=task.id, configuration=one_more))):
            refusal = await refused(attempt)
            assert (refusal.code.name, refusal.reason) == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
        assert (await create(world, task.id, id="c007", url=f"{URL}/new")).url == f"{URL}/new"
        await delete(world, task.id, "c000")
        await create(world, task.id, id="fresh")


class Silent(Pigeonhole):
    """Receivers that do not say whether they want webhooks, until the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.let = asyncio.Event()

    async def challenge(self, hook: PushConfig, owner: str) -> bool:
        self.asked += 1
        await self.let.wait()
        return True


@pytest.mark.req("SSRF-05", "LIMT-02")
async def test_owners_share_how_many_receivers_are_asked_at_once(store: Store) -> None:
    sender, ann = Silent(), as_user("ann")
    delivery = deliver(sender, challenge=True, concurrency=2)
    inline = {"task_push_notification_config": config()}
    async with serving(Stage().agent, store=store, delivery=delivery, authenticator=ByHeader()) as world:
        task = await world.send(say(skill="ask"), metadata=ann)

        def put() -> Any:
            return world.stub.CreateTaskPushNotificationConfig(config(task.id), metadata=ann)

        def bring(user: str) -> Any:
            return world.stub.SendMessage(say(skill="ask", configuration=inline), metadata=as_user(user))

        waiting = [asyncio.ensure_future(call) for call in (put(), bring("ann"))]
        await until(lambda: sender.asked == 2)
        for call in (put(), bring("ann")):
            assert told(await refused(call)) == (
                "RESOURCE_EXHAUSTED",
                "OVERLOADED",
                "2 receivers are being asked whether they want webhooks. Try again later.",
            )
        waiting.append(asyncio.ensure_future(bring("bob")))
        await until(lambda: sender.asked == 3)
        sender.let.set()
        await asyncio.gather(*waiting)
        await asyncio.gather(put(), bring("ann"))


FULL = "must not lead to example.com:443: 2 of your push configs do, and no more may. Delete one first"


@pytest.mark.req("LIMT-01", "LIMT-02", "PUSH-03", "SEND-07")
async def test_an_owner_has_so_many_configs_for_one_host(store: Store) -> None:
    stage, ann = Stage(), as_user("ann")
    delivery = deliver(Pigeonhole(), configs_per_host=2)
    async with serving(stage.agent, store=store, delivery=delivery, authenticator=ByHeader()) as world:
        first, second = [await world.send(say(skill="ask"), metadata=ann) for _ in range(2)]

        async def put(task_id: str, user: str = "ann", **fields: Any) -> None:
            request = config(task_id, **fields)
            await world.stub.CreateTaskPushNotificationConfig(request, metadata=as_user(user))

        def bring(user: str = "ann", **fields: Any) -> Any:
            inline = {"task_push_notification_config": config(**fields)}
            return world.stub.SendMessage(say(skill="ask", configuration=inline), metadata=as_user(user))

        await put(first.id, id="a")
        await put(second.id, id="b")
        for user_fields in ({}, {"url": "https://EXAMPLE.com:443/other"}):
            refusal = await refused(put(first.id, **user_fields))
            assert (refusal.code.name, refusal.reason) == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
            assert (refusal.message, refusal.fields) == (f"url: {FULL}", {"url": FULL})
        turns, field = len(stage.turns), "configuration.task_push_notification_config.url"
        continued = say(task_id=first.id, configuration={"task_push_notification_config": config()})
        for call in (bring(), world.stub.SendMessage(continued, metadata=ann)):
            assert (await refused(call)).fields == {field: FULL}
        assert len(stage.turns) == turns

        await put(first.id, id="a", url=f"{URL}/new")  # in place of one that counts
        await put(first.id, id="c", url="https://example.com:8443/")
        assert (await refused(put(first.id, id="c"))).fields == {"url": FULL}  # it would move there
        await bring("bob")
        gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=first.id, id="a")
        await world.stub.DeleteTaskPushNotificationConfig(gone, metadata=ann)
        await bring()
        assert (await refused(bring())).fields == {field: FULL}


@pytest.mark.only_through("rest", why="its gateway speaks all versions")
@pytest.mark.req("LIMT-01", "LIMT-02")
async def test_every_version_names_the_field_and_the_bound() -> None:
    delivery = deliver(Pigeonhole(), configs_per_host=2)
    async with draft_serving(Stage().agent, delivery=delivery, old_http={}) as (world, client):
        old, task = beside(client), await world.send(say(skill="ask"))
        for number in range(2):
            await create(world, task.id, id=f"c{number}")
        hook, path = {"pushNotificationConfig": {"url": URL}}, f"/v1/tasks/{task.id}/pushNotificationConfigs"
        refusal = await refused(
            world.old.CreateTaskPushNotificationConfig(
                v03.CreateTaskPushNotificationConfigRequest(
                    parent=f"tasks/{task.id}",
                    config=v03.TaskPushNotificationConfig(push_notification_config=v03.PushNotificationConfig(url=URL)),
                )
            )
        )
        assert refusal.fields == {"config.push_notification_config.url": FULL}
        inline = old_say(skill="ask", configuration={"pushNotificationConfig": {"url": URL}})
        field = "pushNotificationConfig.url"
        for answer, name in (
            (await old.rest("POST", path, hook), field),
            (await old.post(old_request("tasks/pushNotificationConfig/set", {"taskId": task.id, **hook})), field),
            (await old.post(old_request("message/send", inline)), f"configuration.{field}"),
            (await client.rest("POST", path, hook), field),
            (
                await client.post(
                    draft_request("SetTaskPushNotificationConfig", {"parent": f"tasks/{task.id}", **hook})
                ),
                field,
            ),
        ):
            assert answer.status == 429
            assert "Retry-After" not in answer.headers
            assert f"{name}: {FULL}" in str(answer.json)
            assert "QUOTA_EXCEEDED" in str(answer.json)


@pytest.mark.req("PUSH-03", "PUSH-13")
async def test_writing_back_what_was_read_keeps_the_secrets(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="ask"))
        secrets = {"token": "t-1", "authentication": pb.AuthenticationInfo(scheme="Bearer", credentials="c-1")}
        read = await create(world, task.id, id="mine", **secrets)
        read.url = f"{URL}/moved"
        await world.stub.CreateTaskPushNotificationConfig(read)
        kept = await store.get_config(Scope("", ANONYMOUS), task.id, "mine")
        assert kept is not None
        assert (kept.config.url, kept.config.token, kept.config.authentication.credentials) == (
            f"{URL}/moved",
            "t-1",
            "c-1",
        )
