"""Push configs of 0.3 over gRPC: their names, their three places for an id, their lists (spec: LGRP-02, CONF-31)."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.ports.store import Store
from tests.bindings.actors import watch_calls
from tests.support.calls import URL
from tests.support.house import MOST_CONFIGS, Admission
from tests.support.old import send, tell
from tests.support.stage import Stage
from tests.support.world import World, refused, serving

pytestmark = pytest.mark.only_through("grpc", why="it is about 0.3's own gRPC service")


def names(task_id: str, config_id: str) -> str:
    return f"tasks/{task_id}/pushNotificationConfigs/{config_id}"


def hook(name: str = "", **fields: Any) -> v03.TaskPushNotificationConfig:
    return v03.TaskPushNotificationConfig(
        name=name, push_notification_config=v03.PushNotificationConfig(**{"url": URL, **fields})
    )


async def create(world: World, parent: str, config_id: str = "", **kwargs: Any) -> v03.TaskPushNotificationConfig:
    config = kwargs.pop("config", None) or hook(**kwargs)
    request = v03.CreateTaskPushNotificationConfigRequest(parent=parent, config_id=config_id, config=config)
    made: v03.TaskPushNotificationConfig = await world.old.CreateTaskPushNotificationConfig(request)
    return made


async def get(world: World, name: str) -> v03.TaskPushNotificationConfig:
    request = v03.GetTaskPushNotificationConfigRequest(name=name)
    config: v03.TaskPushNotificationConfig = await world.old.GetTaskPushNotificationConfig(request)
    return config


async def listed(world: World, parent: str, **fields: Any) -> v03.ListTaskPushNotificationConfigResponse:
    request = v03.ListTaskPushNotificationConfigRequest(parent=parent, **fields)
    answer: v03.ListTaskPushNotificationConfigResponse = await world.old.ListTaskPushNotificationConfig(request)
    return answer


@pytest.mark.req("LGRP-01", "LGRP-02")
async def test_a_config_is_created_read_listed_and_deleted_by_its_names(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        made = await create(world, f"tasks/{task.id}", "c-1", token="t0k3n")
        assert made == hook(names(task.id, "c-1"), id="c-1", token="****")
        assert await get(world, made.name) == made
        assert list((await listed(world, f"tasks/{task.id}")).configs) == [made]
        for _ in range(2):
            await world.old.DeleteTaskPushNotificationConfig(
                v03.DeleteTaskPushNotificationConfigRequest(name=made.name)
            )
        assert not (await listed(world, f"tasks/{task.id}")).configs
        refusal = await refused(get(world, made.name))
        assert (refusal.code.name, refusal.reason) == ("NOT_FOUND", "TASK_NOT_FOUND")


@pytest.mark.req("LGRP-02")
@pytest.mark.parametrize(
    ("config_id", "named", "own"),
    [("c", "", ""), ("", "c", ""), ("", "", "c"), ("c", "c", "c"), ("", "None", "c"), ("c", "None", "")],
)
async def test_an_id_may_stand_in_three_places(config_id: str, named: str, own: str) -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        for parent in (f"tasks/{task.id}", f"tasks/{task.id}/pushNotificationConfigs"):
            made = await create(world, parent, config_id, config=hook(names(task.id, named) if named else "", id=own))
            assert made == hook(names(task.id, "c"), id="c")


async def test_without_any_id_one_is_given(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        made = await create(world, f"tasks/{task.id}")
        config_id = made.push_notification_config.id
        assert config_id
        assert made.name == names(task.id, config_id)
        assert await get(world, made.name) == made


@pytest.mark.req("LGRP-02", "ERRS-05")
async def test_places_that_disagree_are_refused_by_name() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        parent = f"tasks/{task.id}"
        cases: list[tuple[Any, set[str]]] = [
            (create(world, parent, "a", id="b"), {"config_id"}),
            (create(world, parent, config=hook(names(task.id, "a"), id="b")), {"config.name"}),
            (create(world, parent, "a", config=hook(names("other", "a"))), {"config.name"}),
            (create(world, parent, "a", config=hook("a")), {"config.name"}),
            (create(world, parent, "c", config=hook(names(task.id, "a"), id="b")), {"config.name", "config_id"}),
            (create(world, "a", "a"), {"parent"}),
            (create(world, parent, "a", url="ftp://x"), {"config.push_notification_config.url"}),
            (create(world, "", "", config=hook("x", url="ftp://x")), {"parent", "config.name"}),
        ]
        for call, fields in cases:
            refusal = await refused(call)
            assert (refusal.code.name, refusal.reason) == ("INVALID_ARGUMENT", "INVALID_PARAMS")
            assert set(refusal.fields) == fields
        assert not (await listed(world, parent)).configs


@pytest.mark.req("LGRP-01")
async def test_a_list_without_a_size_is_the_whole_list_and_one_with_a_size_a_page(store: Store) -> None:
    async with serving(Stage().agent, store=store, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        parent = f"tasks/{task.id}"
        for number in range(MOST_CONFIGS):
            await create(world, parent, f"c-{number:03}")
        whole = await listed(world, parent)
        assert [config.push_notification_config.id for config in whole.configs] == [
            f"c-{number:03}" for number in range(MOST_CONFIGS)
        ]
        assert whole.next_page_token == ""
        page = await listed(world, parent, page_size=60)
        assert list(page.configs) == list(whole.configs)[:60]
        more = await listed(world, parent, page_size=60, page_token=page.next_page_token)
        assert list(more.configs) == list(whole.configs)[60:]
        assert more.next_page_token == ""
        left = await listed(world, parent, page_token=page.next_page_token)
        assert list(left.configs) == list(whole.configs)[60:]


@pytest.mark.source
async def test_the_pages_of_a_long_list_are_all_followed() -> None:
    """Tasks may one day have more configs than a page holds; then they have, here."""
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        for number in range(5):
            await create(world, f"tasks/{task.id}", f"c-{number}")
        unary = world.pipeline.unary

        async def short_pages(rpc: str, request: Any, *args: Any, **kwargs: Any) -> Any:
            if rpc == "ListTaskPushNotificationConfigs":
                request.page_size = 2
            return await unary(rpc, request, *args, **kwargs)

        world.pipeline.unary = short_pages  # type: ignore[method-assign]
        asked = watch_calls(world)
        whole = await listed(world, f"tasks/{task.id}")
    assert [config.push_notification_config.id for config in whole.configs] == [f"c-{number}" for number in range(5)]
    assert asked == ["ListTaskPushNotificationConfigs"] * 3


@pytest.mark.req("LMAP-01")
async def test_an_empty_authentication_counts_as_none_and_a_real_one_is_masked() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        bare = await create(world, f"tasks/{task.id}", "bare", authentication=v03.AuthenticationInfo())
        assert not bare.push_notification_config.HasField("authentication")
        secret = v03.AuthenticationInfo(schemes=["Bearer"], credentials="s3cr3t")
        made = await create(world, f"tasks/{task.id}", "real", authentication=secret)
        shown = v03.AuthenticationInfo(schemes=["Bearer"], credentials="****")
        assert made.push_notification_config.authentication == shown


@pytest.mark.req("LPSH-02", "LMAP-01")
async def test_all_schemes_reach_the_core_and_the_version_with_them() -> None:
    """The list has no place in a request of 1.0, so it travels beside it."""
    both = v03.AuthenticationInfo(schemes=["Basic", "", "Bearer"], credentials="s3cr3t")
    told: list[tuple[str, tuple[str, ...]]] = []

    def watch(call: Admission) -> None:
        told.append((call.version, tuple(call.schemes)))

    async with serving(Stage().agent, push_notifications=True, steps=[watch]) as world:
        config = v03.PushNotificationConfig(id="c", url=URL, authentication=both)
        task = await send(world, tell(skill="ask", configuration={"push_notification": config}))
        await create(world, f"tasks/{task.id}", "d", authentication=both)
        await get(world, names(task.id, "d"))
        shown = await listed(world, f"tasks/{task.id}")
    assert told[:3] == [("0.3", ("Basic", "Bearer")), ("0.3", ("Basic", "Bearer")), ("0.3", ())]
    for one in shown.configs:
        (chosen,) = one.push_notification_config.authentication.schemes
        assert chosen in both.schemes


@pytest.mark.req("LPSH-02", "ERRS-05")
async def test_schemes_of_which_none_can_be_served_are_refused_by_their_own_name() -> None:
    odd = v03.AuthenticationInfo(schemes=["Digest", "Negotiate"], credentials="s3cr3t")
    config = v03.PushNotificationConfig(id="c", url=URL, authentication=odd)
    async with serving(Stage().agent, push_notifications=True) as world:
        refusal = await refused(world.old.SendMessage(tell(configuration={"push_notification": config})))
        assert set(refusal.fields) == {"configuration.push_notification.authentication.schemes"}
        task = await send(world, tell(skill="ask"))
        refusal = await refused(create(world, f"tasks/{task.id}", "c", authentication=odd))
        assert set(refusal.fields) == {"config.push_notification_config.authentication.schemes"}
        odd.schemes.append("basic")
        made = await create(world, f"tasks/{task.id}", "c", authentication=odd)
    assert made.push_notification_config.authentication.schemes == ["basic"]


@pytest.mark.req("LGRP-02", "GEN-03")
async def test_an_id_of_which_no_name_can_be_made_is_refused() -> None:
    said = "must not hold a slash, since a name is made of it, got 'a/b'"
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        refusal = await refused(create(world, f"tasks/{task.id}", "a/b"))
        assert (refusal.reason, refusal.fields) == ("INVALID_PARAMS", {"config_id": said})
        refusal = await refused(create(world, f"tasks/{task.id}", id="a/b"))
        assert refusal.fields == {"config.push_notification_config.id": said}
        config = v03.PushNotificationConfig(id="a/b", url=URL)
        refusal = await refused(world.old.SendMessage(tell(configuration={"push_notification": config})))
        assert refusal.fields == {"configuration.push_notification.id": said}
        assert not (await listed(world, f"tasks/{task.id}")).configs


@pytest.mark.req("LGRP-02", "LMAP-01")
async def test_a_slash_in_an_id_of_1_0_stands_encoded_in_its_name() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        new = pb.TaskPushNotificationConfig(task_id=task.id, id="s/t%2F", url=URL)
        await world.stub.CreateTaskPushNotificationConfig(new)
        told = hook(names(task.id, "s%2Ft%252F"), id="s/t%2F")
        assert list((await listed(world, f"tasks/{task.id}")).configs) == [told]
        assert await get(world, told.name) == told
        await world.old.DeleteTaskPushNotificationConfig(v03.DeleteTaskPushNotificationConfigRequest(name=told.name))
        assert not (await listed(world, f"tasks/{task.id}")).configs


@pytest.mark.req("LPSH-02", "CONF-34", "ERRS-05")
async def test_a_comma_does_not_make_two_schemes_of_one() -> None:
    odd = v03.AuthenticationInfo(schemes=["Basic", "Digest,Bearer"], credentials="s3cr3t")
    config = v03.PushNotificationConfig(id="c", url=URL, authentication=odd)
    said = "must be the name of an HTTP authentication scheme, such as Bearer"
    async with serving(Stage().agent, push_notifications=True) as world:
        refusal = await refused(world.old.SendMessage(tell(configuration={"push_notification": config})))
        assert refusal.fields == {"configuration.push_notification.authentication.schemes[1]": said}
        task = await send(world, tell(skill="ask"))
        refusal = await refused(create(world, f"tasks/{task.id}", "c", authentication=odd))
        assert refusal.fields == {"config.push_notification_config.authentication.schemes[1]": said}


@pytest.mark.req("LMAP-01")
async def test_a_config_of_one_version_is_one_of_the_other() -> None:
    async with serving(Stage().agent, push_notifications=True) as world:
        task = await send(world, tell(skill="ask"))
        await create(world, f"tasks/{task.id}", "old", token="t")
        new = pb.TaskPushNotificationConfig(task_id=task.id, id="new", url=URL)
        await world.stub.CreateTaskPushNotificationConfig(new)

        request = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert {config.id for config in (await world.stub.ListTaskPushNotificationConfigs(request)).configs} == {
            "old",
            "new",
        }
        assert await get(world, names(task.id, "new")) == hook(names(task.id, "new"), id="new")
        await world.old.DeleteTaskPushNotificationConfig(
            v03.DeleteTaskPushNotificationConfigRequest(name=names(task.id, "new"))
        )
        one = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="new")
        assert (await refused(world.stub.GetTaskPushNotificationConfig(one))).reason == "TASK_NOT_FOUND"
