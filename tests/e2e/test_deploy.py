"""docs/deploy.md, followed to the letter, for as far as one comes without an engine."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.e2e.deployment import Deployment, deployment
from tests.e2e.processes import command
from tests.support import compose

GUIDE = (compose.ROOT / "docs/deploy.md").read_text("utf-8")


def blocks(heading: str) -> list[str]:
    """What is to be typed below a heading of the guide."""
    _, _, below = GUIDE.partition(f"# {heading}\n")
    section = re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found, f"no commands below {heading}"
    return found


def commands(heading: str) -> list[str]:
    """The commands below a heading of the guide."""
    return re.findall(r"(?:.*\\\n)*.+", "".join(blocks(heading)))


def said_in_env(heading: str) -> list[dict[str, str]]:
    """The blocks below a heading that belong into .env."""
    found = [[line.partition("=")[::2] for line in block.splitlines()] for block in blocks(heading)]
    return [dict(lines) for lines in found if all(re.fullmatch(r"[A-Z]\w*", name) for name, _ in lines)]


def follow(deployed: Deployment, heading: str, **variables: str) -> list[str]:
    """Run the commands below a heading, one by one; what each of them prints."""
    printed = []
    for line in commands(heading):
        if line.startswith("docker compose stop "):
            assert deployed.stop(line.rpartition(" ")[2]) == 0
        elif line.startswith("docker compose up "):
            deployed.up()
        else:
            printed.append(deployed.shell(line, **variables))
    return printed


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployment(tmp_path_factory.mktemp("checkout")) as made:
        yield made


@pytest.fixture(scope="module")
def token(deployed: Deployment) -> str:
    """Ann's; with it the deployment has started."""
    script = "\n".join([*commands("Let somebody in"), 'printf %s "$TOKEN"'])
    made = deployed.shell(script)
    follow(deployed, "Start")
    return made


def texts(task: dict[str, Any]) -> list[str]:
    return [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]


def test_the_guide_leads_to_answers(deployed: Deployment, token: str) -> None:
    sent, streamed, listed, called, card = follow(deployed, "Call", TOKEN=token)
    assert texts(json.loads(sent)["task"]) == ["Hello!"]
    events = [json.loads(line.removeprefix("data: ")) for line in streamed.splitlines() if line.startswith("data: ")]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len([event for event in events if "artifactUpdate" in event]) > 1
    assert json.loads(listed)["totalSize"] == 2
    assert json.loads(called)["result"]["totalSize"] == 2
    address = deployed.placed("http://127.0.0.1:8080")
    doors = [
        (door["protocolBinding"], door["url"], door["protocolVersion"])
        for door in json.loads(card)["supportedInterfaces"]
    ]
    assert doors == [
        ("HTTP+JSON", address, "1.0"),
        ("JSONRPC", f"{address}/", "1.0"),
        ("JSONRPC", f"{address}/", "0.3"),
        ("HTTP+JSON", address, "0.3"),
    ]


def test_who_has_no_token_is_let_through_and_refused_by_the_server(deployed: Deployment, token: str) -> None:
    (line,) = [line for line in commands("Call") if line.endswith("/tasks")]
    for header in ("Bearer guessed", "Basic $TOKEN"):
        with pytest.raises(AssertionError, match="HTTP Error 401"):
            deployed.shell(line.replace("Bearer $TOKEN", header), TOKEN=token)
    end = time.monotonic() + 30
    while "UNAUTHENTICATED" not in deployed.log("server"):  # a thread writes it
        assert time.monotonic() < end
        time.sleep(0.05)
    assert token not in deployed.log("server") + deployed.log("gateway")


@pytest.mark.req("DOOR-07")
@pytest.mark.usefixtures("token")
def test_the_health_checks_tell_a_gateway_that_is_alive_from_one_that_is_ready(deployed: Deployment) -> None:
    alive, ready = (line for line in commands("Health") if line.startswith("curl "))
    deployed.shell(f"{alive}\n{ready}")
    assert deployed.stop("server") == 0
    answer = deployed.ask("server")
    assert (answer.returncode, answer.stderr.split(": ")[-1]) == (1, "nothing listens there\n")
    until_unready(deployed)
    with pytest.raises(AssertionError, match="HTTP Error 503"):
        deployed.shell(ready)
    deployed.shell(alive)
    deployed.up()
    deployed.shell(ready)


def until_unready(deployed: Deployment) -> None:
    """A gateway believes for a moment what it heard last."""
    while (answer := deployed.ask("gateway")).returncode == 0:
        pass
    assert "503 Service Unavailable" in answer.stderr


def test_a_backup_of_a_running_server_brings_its_tasks_back(deployed: Deployment, token: str) -> None:
    send, _, tasks, *_ = commands("Call")
    deployed.shell(send, TOKEN=token)
    before = deployed.shell(tasks, TOKEN=token)
    follow(deployed, "Backup")
    deployed.shell(send, TOKEN=token)
    assert deployed.shell(tasks, TOKEN=token) != before
    follow(deployed, "Restore")
    assert deployed.shell(tasks, TOKEN=token) == before
    left = list(deployed.volume.iterdir())
    assert not [path for path in left if not path.name.startswith("a2a.db")]
    assert not [path for path in left if path.stat().st_mode & 0o077]


@pytest.mark.usefixtures("token")
def test_both_stop_when_they_are_told(deployed: Deployment) -> None:
    assert [deployed.stop(name) for name in reversed(deployed.names)] == [0, 0]
    deployed.up()


def test_an_agent_of_one_s_own_is_served(deployed: Deployment, token: str) -> None:
    for name in reversed(deployed.names):
        assert deployed.stop(name) == 0
    copy, choose, *_ = commands("Your own agent")
    deployed.shell(f"{copy}\n{choose}")
    deployed.up()
    send, *_, card = commands("Call")
    assert texts(json.loads(deployed.shell(send, TOKEN=token))["task"]) == ["Hello!"]
    assert json.loads(deployed.shell(card))["name"] == "Echo"


def card_of(deployed: Deployment, **fields: str) -> dict[tuple[str, str], str]:
    """The URLs of the card's doors, as a client sees it who comes through a proxy that adds these fields."""
    (card,) = [line for line in commands("Call") if line.endswith("agent-card.json")]
    told = " ".join(f"--header '{name.replace('_', '-')}: {value}'" for name, value in fields.items())
    doors = json.loads(deployed.shell(f"{card} {told}"))["supportedInterfaces"]
    return {(door["protocolBinding"], door["protocolVersion"]): door["url"] for door in doors}


@contextmanager
def prepared(folder: Path) -> Iterator[tuple[Deployment, str]]:
    """A deployment of its own that has not started, and Ann's token."""
    with deployment(folder) as made:
        yield made, made.shell("\n".join([*commands("Let somebody in"), 'printf %s "$TOKEN"']))


def restart(deployed: Deployment) -> None:
    for name in reversed(deployed.names):
        deployed.stop(name)
    deployed.up()


@pytest.mark.req("DOOR-05")
def test_the_card_says_what_env_says_or_what_trusted_proxies_say(tmp_path: Path) -> None:
    outside, proxied = said_in_env("TLS, and the outside")
    (grpc,) = said_in_env("gRPC")
    forwarded = {"X_Forwarded_Proto": "https", "X_Forwarded_Host": "other.example", "X_Forwarded_For": "192.0.2.7"}
    with prepared(tmp_path) as (made, _):
        made.say(**proxied)
        made.say(A2A_GATEWAY__TRUSTED_PROXIES="127.0.0.0/8")  # there is no bridge here
        made.up()
        assert card_of(made, **forwarded)["HTTP+JSON", "1.0"] == "https://other.example"
        made.say(**outside, **grpc)
        restart(made)
        assert card_of(made, **forwarded) == {
            ("GRPC", "1.0"): "agents.example:443",
            ("HTTP+JSON", "1.0"): "https://agents.example",
            ("JSONRPC", "1.0"): "https://agents.example/",
            ("JSONRPC", "0.3"): "https://agents.example/",
            ("HTTP+JSON", "0.3"): "https://agents.example",
            ("GRPC", "0.3"): "agents.example:443",
        }


@pytest.mark.long  # starts three times
@pytest.mark.req("PAID-05", "PAID-06")
def test_keys_of_webhooks_seal_sign_and_can_be_changed(tmp_path: Path) -> None:
    seal, sign, allow, choose, up, *_, look = commands("Keys for webhooks")
    (changing,) = said_in_env("Keys for webhooks")
    config = {"url": "https://hook.invalid/", "token": "very-secret"}
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "to Lisbon"}]}
    wanted = {"taskPushNotificationConfig": config}
    body = json.dumps({"message": message, "metadata": {"skill": "booking"}, "configuration": wanted})
    bearer = '--header "Authorization: Bearer $TOKEN"'
    send = f"curl http://127.0.0.1:8080/message:send {bearer} -H 'content-type: application/json' -d '{body}'"
    with prepared(tmp_path) as (made, token):
        made.shell(f"{seal}\n{sign}\n{allow}\n{choose}")
        assert up.startswith("docker compose up ")
        made.up()
        (key,) = json.loads(made.shell("curl http://127.0.0.1:8080/.well-known/jwks.json"))["keys"]
        assert (key["crv"], "d" in key) == ("P-256", False)
        assert "TASK_STATE_INPUT_REQUIRED" in made.shell(send, TOKEN=token)
        stored = b"".join(path.read_bytes() for path in made.volume.iterdir())
        assert b"sealed:1:" in stored
        assert b"very-secret" not in stored
        tried = owed(made, look)["attempts"]
        made.shell(seal.replace("push-sealing", "push-sealing-2"))
        made.say(**changing)
        restart(made)
        while (told := owed(made, look))["attempts"] <= tried:
            pass
        assert told["parkedSince"] is None
        made.say(PUSH_SEALING_KEY_OLD=changing["PUSH_SEALING_KEY"])  # too early
        restart(made)
        while (told := owed(made, look))["parkedSince"] is None:
            pass
        assert told["why"] == "sealed secret"


def owed(deployed: Deployment, look: str) -> dict[str, Any]:
    """The one config that is owed something."""
    (config,) = json.loads(deployed.shell(f"{look} --json"))["configs"]
    return cast("dict[str, Any]", config)


def test_the_image_serves_by_itself(tmp_path: Path) -> None:
    (line,) = commands("Without Compose")
    send, _, tasks, *_ = commands("Call")
    with prepared(tmp_path) as (made, token):
        made.run(line)
        assert texts(json.loads(made.shell(send, TOKEN=token))["task"]) == ["Hello!"]
        with pytest.raises(AssertionError, match="HTTP Error 401"):
            made.shell(tasks, TOKEN="guessed")
        assert card_of(made)["GRPC", "1.0"] == made.placed("127.0.0.1:50051")
        assert card_of(made)["HTTP+JSON", "1.0"] == made.placed("http://127.0.0.1:8080")
        assert made.stop("alone") == 0


def test_a_server_without_tokens_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").touch()
    server = compose.read()["services"]["server"]
    told = compose.environment(server) | {"A2A_AUTH__TOKENS_FILE": str(tmp_path / "tokens.toml")}
    done = command(*server["command"], cwd=tmp_path, **told)
    assert done.returncode == 2
    assert "without authentication only this machine may call" in done.stderr
