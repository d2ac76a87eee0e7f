"""docker-compose.yml without an engine: its commands as processes, in its order, on free ports."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
        "run --rm") shift; "$PYTHON" -m a2a_server "$@" ;;
        "compose exec") while [ "$1" != python ]; do shift; done; shift; "$PYTHON" "$@" ;;
        "compose run") for last; do :; done; sh -c "$last" ;;
        *) echo "no engine for: docker $verb" >&2; return 1 ;;
    esac
}
curl() { "$PYTHON" curl.py "$@"; }
"""
"""What a shell must know of Docker, and of curl, which not every machine has."""

CURL = """
import argparse, urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--json", type=str.encode)
parser.add_argument("--header", action="append", default=[])
parser.add_argument("--no-buffer", action="store_true")
parser.add_argument("url")
asked = parser.parse_args()
fields = dict(line.split(": ", 1) for line in asked.header)
if asked.json:
    fields["Content-Type"] = "application/json"
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(urllib.request.Request(asked.url, asked.json, fields)) as answer:
    print(answer.read().decode())
"""


class Deployment:
    """A checkout in a folder of its own, and the processes of its compose file."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self.folder = folder
        self.volume = folder / "volume"
        self.variables: dict[str, str] = {}
        """What .env and the shell would say."""
        self._ports = ports
        self._file = compose.read()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.volume.mkdir()
        for name in TAKEN_ALONG:
            source = compose.ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        (folder / "curl.py").write_text(CURL, "utf-8")

    @property
    def names(self) -> list[str]:
        """The services, each after those it waits for."""
        services = self._file["services"]
        return sorted(services, key=lambda name: len(services[name].get("depends_on", ())))

    def placed(self, text: str) -> str:
        """A text of the compose file or the guide, with this machine's addresses and folders."""
        text = re.sub(r"[\w.]+:(50051|8080)\b", lambda match: f"127.0.0.1:{self._ports[match[1]]}", text)
        secrets = {f"/run/secrets/{name}": secret["file"] for name, secret in self._file["secrets"].items()}
        for inside, outside in {"/var/lib/a2a": self.volume, **secrets}.items():
            text = text.replace(inside, str(self.folder / outside))
        return text

    def up(self) -> None:
        """Start what does not run, one after the other, each when the one before is healthy."""
        for name in self.names:
            if name not in self._running:
                self._running[name] = self._start(name, self._file["services"][name]["command"])
            self._wait(name)

    def stop(self, name: str) -> int:
        """Stop a service as an engine does; its exit status, and no patience beyond its grace period."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(int(self._file["services"][name]["stop_grace_period"].removesuffix("s")))

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def ask(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service's health check."""
        kind, program, *words = self._file["services"][name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "a2a-server")
        return subprocess.run(
            [sys.executable, "-m", "a2a_server", *map(self.placed, words)],
            cwd=self.folder / "deploy/app",
            env=self._environment(name),
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
        told = compose.environment(self._file["services"][name], **self.variables)
        return clean(**{variable: self.placed(value) for variable, value in told.items()})

    def _start(self, name: str, words: list[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "a2a_server", *map(self.placed, words)],
                cwd=self.folder / "deploy/app",
                env=self._environment(name),
                stdout=log,
                stderr=log,
            )

    def _wait(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (answer := self.ask(name)).returncode:
            assert self._running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, answer.stderr
            time.sleep(0.1)  # asking takes a core


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
