"""docker-compose.yml without an engine: its commands as processes, in its order, on free ports."""

import argparse
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.processes import environment as clean
from tests.support import compose

PORTS = ("50051", "8080")
PATIENCE = 30
TAKEN_ALONG = ("deploy", "examples", ".env.example")

ENGINE = """
set -eu
docker() {
    verb="$1 $2"; shift 2
    case $verb in
        "run --rm") alone "$@" ;;
        "compose exec") while [ "$1" != server ]; do shift; done; shift; inside "$@" ;;
        "compose run") for last; do :; done; sh -c "$last" ;;
        *) echo "no engine for: docker $verb" >&2; return 1 ;;
    esac
}
alone() (
    while [ "$1" != a2ad:latest ]; do [ "$1" != --volume ] || volume=$2; shift; done
    shift
    for word; do shift; set -- "$@" "$(echo "$word" | sed "s#^${volume#*:}/#${volume%%:*}/#")"; done
    "$PYTHON" -m a2a_server "$@"
)
inside() (
    cd deploy/app
    program=$1; shift
    case $program in
        a2ad) "$PYTHON" -m a2a_server "$@" ;;
        python) "$PYTHON" "$@" ;;
    esac
)
curl() { "$PYTHON" curl.py "$@"; }
"""
"""What a shell must know of Docker, and of curl, which not every machine has."""

CURL = """
import argparse, urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("-d", type=str.encode)
parser.add_argument("-H", "--header", action="append", default=[])
parser.add_argument("--no-buffer", action="store_true")
parser.add_argument("url")
asked = parser.parse_args()
fields = dict(line.split(": ", 1) for line in asked.header)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(urllib.request.Request(asked.url, asked.d, fields)) as answer:
    print(answer.read().decode())
"""

_DOCKER_RUN = argparse.ArgumentParser()
for _option in ("--env", "--publish", "--volume"):
    _DOCKER_RUN.add_argument(_option, action="append")
for _option in ("--name", "--restart", "--stop-timeout"):
    _DOCKER_RUN.add_argument(_option)
_DOCKER_RUN.add_argument("--detach", action="store_true")
_DOCKER_RUN.add_argument("image")


class Deployment:
    """A checkout in a folder of its own, and the processes of its compose file."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self.folder = folder
        self.volume = folder / "volume"
        self._ports = ports
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts: Counter[str] = Counter()
        self.volume.mkdir()
        for name in TAKEN_ALONG:
            source = compose.ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        (folder / "curl.py").write_text(CURL, "utf-8")

    @property
    def variables(self) -> dict[str, str]:
        """What .env says."""
        path = self.folder / ".env"
        return dict(re.findall(r"^(\w+)=(.*)$", path.read_text("utf-8"), re.MULTILINE)) if path.exists() else {}

    def say(self, **variables: str) -> None:
        """Add lines to .env; of one name the last one counts."""
        with (self.folder / ".env").open("a", encoding="utf-8") as lines:
            lines.writelines(f"{name}={value}\n" for name, value in variables.items())

    @property
    def _file(self) -> dict[str, Any]:
        """The compose file, together with the others that .env names."""
        variables = self.variables
        names = variables.get("COMPOSE_FILE", compose.FILE.name).split(":")
        return compose.merged(*(compose.ROOT / name for name in names), **variables)

    @property
    def names(self) -> list[str]:
        """The services, each after those it waits for."""
        services = self._file["services"]
        return sorted(services, key=lambda name: len(services[name].get("depends_on", ())))

    def placed(self, text: str) -> str:
        """A text of the compose file or the guide, with this machine's addresses and folders."""
        text = re.sub(r"[\w.]+:(50051|8080)\b", lambda match: f"127.0.0.1:{self._ports[match[1]]}", text)
        secrets = self._file["secrets"]
        text = re.sub(r"/run/secrets/(\w+)", lambda match: str(self.folder / secrets[match[1]]["file"]), text)
        return text.replace("/var/lib/a2a", str(self.volume))

    def up(self) -> None:
        """Start what does not run, one after the other, each when the one before is healthy."""
        for name in self.names:
            if name not in self._running:
                command = self._file["services"][name]["command"]
                self._running[name] = self._begin(name, command, self._environment(name))
            self._until_healthy(name, partial(self.ask, name))

    def run(self, line: str) -> None:
        """Start one container by itself, as `docker run` does, and wait until it is healthy."""
        asked = _DOCKER_RUN.parse_args(shlex.split(line.replace("\\\n", " "))[2:])
        told = dict(text.partition("=")[::2] for text in asked.env)
        assert asked.image == compose.defaults()["IMAGE"]
        assert asked.publish == [f"127.0.0.1:{port}:{port}" for port in reversed(PORTS)]
        assert f"{asked.stop_timeout}s" == compose.defaults()["STOP_GRACE"]  # an engine's own is shorter than a drain
        assert {place.partition(":")[2] for place in asked.volume} == {"/var/lib/a2a", "/run/secrets/tokens:ro"}
        environment = self._clean(compose.image_environment() | told)
        self._running["alone"] = self._begin("alone", ["serve"], environment)
        self._until_healthy("alone", lambda: self._health([], environment))

    def stop(self, name: str) -> int:
        """Stop a service as an engine does; its exit status, and no patience beyond its grace period."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        grace = self._file["x-program"]["stop_grace_period"]
        return process.wait(int(grace.removesuffix("s")))

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def ask(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service's health check."""
        kind, program, verb, *words = self._file["services"][name]["healthcheck"]["test"]
        assert (kind, program, verb) == ("CMD", "a2ad", "health")
        return self._health(words, self._environment(name))

    def _health(self, words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "a2a_server", "health", *map(self.placed, words)],
            cwd=self.folder / "deploy/app",
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8")

    def shell(self, script: str, **variables: str) -> str:
        """Run commands of the guide as their reader would; what they print."""
        done = subprocess.run(
            ["/bin/sh", "-c", ENGINE + self.placed(script)],
            cwd=self.folder,
            env={**self._environment("server"), "PYTHON": sys.executable, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _environment(self, name: str) -> dict[str, str]:
        return self._clean(compose.environment(self._file["services"][name], **self.variables))

    def _clean(self, told: dict[str, str]) -> dict[str, str]:
        return clean(**{variable: self.placed(value) for variable, value in told.items()})

    def _begin(self, name: str, words: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        self._starts[name] += 1
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "a2a_server", *map(self.placed, words)],
                cwd=self.folder / "deploy/app",
                env=environment,
                stdout=log,
                stderr=log,
            )

    def _until_healthy(self, name: str, ask: Callable[[], subprocess.CompletedProcess[str]]) -> None:
        """Ask when it says that its doors are open: asking takes a core, which it needs for its start."""
        deadline = time.monotonic() + PATIENCE
        while self.log(name).count('.started"') < self._starts[name] or ask().returncode:
            assert self._running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.05)


@contextmanager
def reserved() -> Iterator[int]:
    """A port that the system gives to nobody else, for servers that come, go and come again."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def deployment(folder: Path) -> Iterator[Deployment]:
    """Nothing runs yet; whatever runs in the end is killed."""
    with ExitStack() as stack:
        deployed = Deployment(folder, {port: stack.enter_context(reserved()) for port in PORTS})
        stack.callback(deployed.kill)
        yield deployed
