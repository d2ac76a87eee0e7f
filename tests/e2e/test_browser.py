"""What web pages can do to a server on this machine, in a real Chromium (spec: DOOR-04)."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from a2a_server.agents import Agent, Turn
from tests.support.http import SEND, get, house, once, port_of, post

NAMES = "chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "headless_shell"
CHROMIUM = os.environ.get("A2A_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="needs a Chromium: in the PATH, or named by A2A_CHROMIUM (apt-get install chromium)"
)

agent = Agent(name="Asker", description="Asks back.", version="1.0.0")


@agent.skill(id="ask", tags=["ask"])
async def ask(turn: Turn) -> None:
    await turn.ask("Which one?")


PAGE = b"""<!doctype html><meta charset="utf-8"><body><script>
const api = "%(api)s", task = "%(task)s", send = `%(send)s`, told = {}
async function fetched(name, path, options) {
  try {
    const answer = await fetch(api + path, options)
    told[name] = answer.type === "opaque" ? "sent" : answer.status
  } catch (error) { told[name] = "blocked" }
}
async function posted(path, enctype) {
  const form = document.createElement("form"), frame = document.createElement("iframe")
  frame.name = "f" + Math.random()
  Object.assign(form, {method: "POST", action: api + path, enctype, target: frame.name})
  const field = document.createElement("input")
  Object.assign(field, {name: send.slice(0, -1) + ',"metadata":{"x":"', value: '"}}'})
  form.append(field); document.body.append(frame, form)
  const done = new Promise(loaded => { frame.onload = loaded })
  form.submit(); await done
}
async function main() {
  const json = {"Content-Type": "application/json"}, method = "POST"
  await fetched("read", "/tasks")
  await fetched("text", "/message:send", {method, mode: "no-cors", body: send})
  await fetched("untyped", "/message:send", {method, mode: "no-cors", body: new Blob([send])})
  await fetched("json", "/message:send", {method, body: send, headers: json})
  await fetched("rpc", "/", {method, mode: "no-cors", body: new Blob([
    `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${send}}`])})
  await fetched("hook", `/tasks/${task}/pushNotificationConfigs`, {method, mode: "no-cors", body: new Blob([
    '{"id":"evil","url":"https://hook.example/"}'])})
  await fetched("delete", `/tasks/${task}/pushNotificationConfigs/own`, {method: "DELETE"})
  await fetched("cancel", `/tasks/${task}:cancel`, {method, mode: "no-cors"})
  for (const type of ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded"]) {
    await posted("/message:send", type); await posted(`/tasks/${task}:cancel`, type)
  }
  await fetched("allowed", `/tasks/${task}:cancel`, {method})
  await fetch("/told", {method, body: JSON.stringify(told)})
}
main()
</script>"""


class Site:
    """Serves one page under any name, and hears what came of it."""

    def __init__(self, page: bytes) -> None:
        self.page = page
        self.told: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if head.startswith(b"post /told"):
            size = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            self.told.set_result(orjson.loads(await reader.readexactly(size)))
        fields = b"Content-Type: text/html\r\nContent-Length: %d\r\nConnection: close" % len(self.page)
        writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (fields, self.page))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def chromium(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Every name leads to this machine, as with an attacker's DNS server."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server", f"--user-data-dir={folder}"]
    line = [CHROMIUM, *flags, "--host-resolver-rules=MAP *.example 127.0.0.1", *arguments]
    quiet = asyncio.subprocess.DEVNULL
    browser = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE, stderr=quiet)
    try:
        yield browser
    finally:
        if browser.returncode is None:
            browser.terminate()
        await browser.wait()


async def shown(folder: Path, url: str) -> str:
    """What a tab shows."""
    async with asyncio.timeout(PATIENCE), chromium(folder, "--dump-dom", url) as browser:
        return (await browser.communicate())[0].decode()


async def visit(folder: Path, host: str, api: str, task: str, port: int = 0) -> dict[str, Any]:
    """Open the page under a name, and return what it could do."""
    parts = {b"api": api.encode(), b"task": task.encode(), b"send": SEND.replace(b'"m"', b'"evil"')}
    site = Site(PAGE % parts)
    server = await asyncio.start_server(site.answer, "127.0.0.1", port)
    async with server, asyncio.timeout(PATIENCE):
        url = f"http://{host}:{server.sockets[0].getsockname()[1]}/"
        async with chromium(folder, "--remote-debugging-port=0", url):
            return await site.told


async def started(port: int) -> str:
    """A task with a webhook."""
    task = str((await once(port, post("/message:send"))).json["task"]["id"])
    config = b'{"id":"own","url":"https://hook.example/"}'
    assert (await once(port, post(f"/tasks/{task}/pushNotificationConfigs", config))).status == 200
    return task


async def state(port: int, task: str) -> tuple[int, str, list[str]]:
    """How many tasks there are, and what has become of the first and its webhooks."""
    tasks = (await once(port, get("/tasks"))).json["tasks"]
    configs = (await once(port, get(f"/tasks/{task}/pushNotificationConfigs"))).json.get("configs", [])
    own = (await once(port, get(f"/tasks/{task}"))).json
    return len(tasks), own["status"]["state"], [config["id"] for config in configs]


@pytest.mark.req("DOOR-04")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "api.example"])
async def test_a_foreign_page_changes_nothing_and_reads_nothing(tmp_path: Path, name: str) -> None:
    async with house(agent) as server:
        port = port_of(server)
        task = await started(port)
        told = await visit(tmp_path, "evil.example", f"http://{name}:{port}", task)
        blind = dict.fromkeys(("text", "untyped", "rpc", "hook", "cancel"), "sent")  # it is not told what came of it
        assert told == {**dict.fromkeys(("read", "json", "delete", "allowed"), "blocked"), **blind}
        assert await state(port, task) == (1, "TASK_STATE_INPUT_REQUIRED", ["own"])


@pytest.mark.req("DOOR-04")
async def test_a_name_that_points_here_reads_nothing(tmp_path: Path) -> None:
    """As after DNS rebinding: to the browser, page and server are one site."""
    async with house(agent) as server:
        port = port_of(server)
        task = await started(port)
        assert task in await shown(tmp_path / "own", f"http://localhost:{port}/tasks")
        answer = await shown(tmp_path / "evil", f"http://evil.example:{port}/tasks")
        assert "MISDIRECTED_REQUEST" in answer
        assert task not in answer


@pytest.mark.req("DOOR-04")
async def test_an_allowed_page_may_call(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        page = int(free.getsockname()[1])
    async with house(agent, gateway={"cors_origins": [f"http://console.example:{page}"]}) as server:
        port = port_of(server)
        task = await started(port)
        told = await visit(tmp_path, "console.example", f"http://127.0.0.1:{port}", task, page)
        assert (told["read"], told["json"], told["delete"], told["allowed"]) == (200, 200, 200, 400)  # cancelled before
        assert (await state(port, task))[1:] == ("TASK_STATE_CANCELED", [])
