"""The gateway as an aiohttp application: mounted, tested and wrapped as any other (spec: DOOR-12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from a2a_gateway import GatewayConfig, create_app
from a2a_proto import a2a_pb2 as pb
from tests.support.door_events import event_of
from tests.support.door_upstream import Scripted, event, plays
from tests.support.house import STREAM_SLOTS, A2AError, GatewayOptions, Reason

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RPC = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}


def application(upstream: Scripted | None = None, base: str = "http://a.example") -> web.Application:
    return create_app(upstream or Scripted(pb.Task(id="t")), GatewayConfig(base=base))


def client(app: web.Application) -> TestClient[web.Request, web.Application]:
    return TestClient(TestServer(app))


@pytest.mark.req("DOOR-12")
async def test_it_is_tested_with_the_client_of_aiohttp() -> None:
    streaming = Scripted(script=plays((event(1),), (event(2), event(3))))
    async with client(application()) as http:
        answer = await http.get("/tasks/t")
        assert (answer.status, (await answer.json(content_type=None))["id"]) == (200, "t")
        told = await http.post("/", json=RPC)
        assert (await told.json())["result"]["id"] == "t"
        missing = await http.get("/nope")
        assert (missing.status, (await missing.json(content_type=None))["error"]["status"]) == (404, "NOT_FOUND")
    async with client(application(streaming)) as http:
        stream = await http.get("/tasks/t:subscribe")
        frames = (await stream.text()).removesuffix("\n\n").split("\n\n")
        assert [event_of(frame).number for frame in frames] == [1, 2, 3]
        assert (await http.get("/healthz")).status == 200  # by the same connection


@pytest.mark.req("DOOR-12")
@pytest.mark.parametrize("depth", [1, 2])
async def test_another_application_mounts_it_below_a_path(depth: int) -> None:
    streaming = Scripted(pb.Task(id="t"), script=plays((event(1),)))
    app = application(streaming, base="http://a.example/agents")
    for level in range(depth):
        outer = web.Application()
        outer.add_subapp(f"/level{level}", app)
        outer.router.add_get("/own", own_page)
        app = outer
    root = "/level1/level0" if depth > 1 else "/level0"
    async with client(app) as http:
        assert (await (await http.get("/own")).text()) == "own"
        assert (await (await http.get(f"{root}/tasks/t")).json(content_type=None))["id"] == "t"
        for url in (root, f"{root}/"):
            assert (await (await http.post(url, json=RPC)).json())["result"]["id"] == "t"
        assert (await (await http.get(f"{root}/tasks/t:subscribe")).text()).startswith("id: 1\ndata: ")
        assert (await http.get(f"{root}/healthz")).status == 200
        missing = await http.get(f"{root}/nope")
        assert (missing.status, missing.content_type) == (404, "application/a2a+json")
        assert (await http.options(f"{root}/tasks/t")).headers["Allow"] == "GET, HEAD, OPTIONS"
        assert (await http.get("/tasks/t")).status == 404
        assert (await http.get("/healthz")).content_type == "text/plain"  # where the gateway is not, aiohttp answers


async def own_page(_: web.Request) -> web.StreamResponse:
    return web.Response(text="own")


CALLS = [
    ("GET", "/tasks/t", 200),
    ("POST", "/", 200),
    ("GET", "/tasks/t:subscribe", 200),
    ("GET", "/healthz", 200),
    ("GET", "/nope", 404),
    ("PUT", "/tasks/t", 405),
    ("OPTIONS", "/tasks/t", 204),
]


@pytest.mark.req("DOOR-12")
@pytest.mark.parametrize(("verb", "path", "status"), CALLS)
async def test_a_middleware_wraps_every_call(verb: str, path: str, status: int) -> None:
    """It sees requests and answers, streams included, and what it adds to the headers is sent."""
    seen: list[tuple[str, int]] = []

    @web.middleware
    async def audit(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        seen.append((request.path, answer.status))
        answer.headers["X-Audit"] = "seen"
        return answer

    outer = web.Application(middlewares=[audit])
    outer.add_subapp("/a2a", application(Scripted(pb.Task(id="t"), script=plays((event(1),)))))
    async with client(outer) as http:
        answer = await http.request(verb, f"/a2a{path}", json=RPC if verb == "POST" else None)
        assert (answer.status, answer.headers["X-Audit"]) == (status, "seen")
        await answer.read()
    assert seen == [(f"/a2a{path}", status)]


@pytest.mark.req("DOOR-12")
async def test_what_a_middleware_changes_is_changed() -> None:
    """Answers that nobody changes have a head that was made before."""

    @web.middleware
    async def change(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if "status" in request.headers:
            answer.set_status(202)
        if "cache" in request.headers:
            del answer.headers["Cache-Control"]
        return answer

    outer = web.Application(middlewares=[change])
    outer.add_subapp("/a2a", application(Scripted(pb.Task(id="t"))))
    async with client(outer) as http:
        for asked, status, cached in (({}, 200, True), ({"status": "x"}, 202, True), ({"cache": "x"}, 200, False)):
            async with http.get("/a2a/tasks/t", headers=asked) as answer:
                found = answer.status, "Cache-Control" in answer.headers, (await answer.json())["id"]
                assert found == (status, cached, "t")
                assert answer.headers["Server"] == "a2ad"
                assert int(answer.headers["Content-Length"]) == len(await answer.read())
                assert "Date" in answer.headers


@pytest.mark.req("DOOR-12")
async def test_what_a_middleware_answers_itself_is_the_answer() -> None:
    streaming = Scripted(script=plays((event(1),)))

    @web.middleware
    async def closed(request: web.Request, handler: Handler) -> web.StreamResponse:
        await handler(request)
        raise web.HTTPForbidden(text="closed today")

    app = application(streaming)
    outer = web.Application(middlewares=[closed])
    outer.add_subapp("/a2a", app)
    async with client(outer) as http:
        answer = await http.get("/a2a/tasks/t:subscribe")
        assert (answer.status, await answer.text()) == (403, "closed today")
    assert app[STREAM_SLOTS].count == 0


@pytest.mark.req("DOOR-12")
@pytest.mark.parametrize("path", ["/tasks/t", "/tasks/t:subscribe"])
async def test_who_wants_to_be_told_before_an_answer_is_sent_is_told(path: str) -> None:
    async def stamp(request: web.Request, answer: web.StreamResponse) -> None:
        answer.headers["X-Stamp"] = request.method

    app = application(Scripted(pb.Task(id="t"), script=plays((event(1),))))
    app.on_response_prepare.append(stamp)
    async with client(app) as http:
        answer = await http.get(path)
        assert (answer.status, answer.headers["X-Stamp"]) == (200, "GET")


@pytest.mark.req("DOOR-12")
async def test_cookies_and_compression_that_a_middleware_asks_for_are_applied() -> None:
    @web.middleware
    async def adds(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if "zip" in request.headers:
            answer.enable_compression(web.ContentCoding.gzip)
        else:
            answer.set_cookie("seen", "yes")
        return answer

    outer = web.Application(middlewares=[adds])
    outer.add_subapp("/a2a", application(Scripted(pb.Task(id="t" * 1000))))
    async with client(outer) as http:
        plain = await http.get("/a2a/tasks/t")
        assert plain.cookies["seen"].value == "yes"
        zipped = await http.get("/a2a/tasks/t", headers={"zip": "yes"})
        assert zipped.headers["Content-Encoding"] == "gzip"
        assert await zipped.json(content_type=None) == await plain.json(content_type=None)


@pytest.mark.req("DOOR-12", "ERRS-02")
async def test_errors_are_answers_wherever_it_is_mounted() -> None:
    outer = web.Application()
    outer.add_subapp("/a2a", application(Scripted(script=plays(A2AError(Reason.TASK_NOT_FOUND, "Task not found.")))))
    async with client(outer) as http:
        answer = await http.get("/a2a/tasks/t:subscribe")
        told = (await answer.json(content_type=None))["error"]
        assert (answer.status, told["message"]) == (404, "Task not found.")
        long = await http.get("/a2a/tasks/" + "t" * GatewayOptions().max_url_bytes)
        assert long.status in {400, 414}  # 400 is aiohttp's own, if its limit comes first
