"""docker-compose.cluster.yml without an engine: its commands, settings and balancer as processes on loopback.

Servers and gateways are those of this checkout, or of a built image: IMAGE_ROOT is where its files are.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import trustme

from tests.e2e.deployment import reserved
from tests.e2e.processes import command
from tests.e2e.processes import environment as clean
from tests.support import compose, postgres

PATIENCE = 60
TLS = compose.ROOT / "deploy/cluster-tls.yml"
AGENT = compose.ROOT / "tests/support/cluster_agent.py"
SERVERS, GATEWAYS = ("server-1", "server-2"), ("gateway-1", "gateway-2")
LISTENING = {
    **dict.fromkeys(SERVERS, ("50051",)),
    **dict.fromkeys(GATEWAYS, ("8080",)),
    "balancer": ("8080", "8443", "9901"),
}
"""The ports of each service."""
VARIABLES = {"A2A_AGENT": "cluster_agent.py:agent", "SUBNET": "127.0.0.0/8"}
IMAGE_ROOT = os.environ.get("IMAGE_ROOT", "")
IN_IMAGE = """
mkdir -p "$0$1" && mount --bind "$1" "$0$1"
exec chroot --userspec=10001:10001 "$0" env HOME=/var/lib/a2a sh -c 'cd "$0/app" && exec /opt/a2a/bin/a2ad "$@"' "$@"
"""
"""Run a program of the image as the image's user, with a folder of the machine in the same place there."""


def program(folder: Path) -> list[str]:
    """What `a2ad` is."""
    if IMAGE_ROOT:
        return ["unshare", "--mount", "sh", "-euc", IN_IMAGE, IMAGE_ROOT, str(folder)]
    return [sys.executable, "-m", "a2a_server"]


class Cluster:
    """The processes of the compose file."""

    def __init__(self, folder: Path, ports: dict[tuple[str, str], int], database: postgres.Cluster) -> None:
        self._folder = folder
        self._ports = ports
        self._database = database
        self._variables = {**VARIABLES, "A2A_PUBLIC_URL": self.url}
        self._file = compose.merged(compose.CLUSTER, TLS, **self._variables)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._balancer = folder / "balancer"
        self._app = folder / "app"
        self._app.mkdir()
        shutil.copy(AGENT, self._app)
        self._secrets = {name: folder / name for name in self._file["secrets"]}
        self._a2ad = program(folder)
        self.token = self._make_secrets()
        self._let_image_read()
        self._make_database()
        self._place_balancer()

    def _make_secrets(self) -> str:
        """A caller's token, whose hash is in a file, the password of the database, and a certificate."""
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(self._secrets["balancer_certificate"])
        certificate.private_key_pem.write_to_path(self._secrets["balancer_key"])
        self.authority = authority.cert_pem.bytes()
        self._secrets["database"].write_text(f"{secrets.token_hex(16)}\n", "utf-8")
        made = command("token", "new", "--owner", "ann", "--append", str(self._secrets["tokens"]), cwd=self._folder)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def _let_image_read(self) -> None:
        """The image's user is somebody else, as docs/deploy.md says."""
        self._folder.chmod(0o711)
        self._app.chmod(0o777)
        for path in self._secrets.values():
            path.chmod(0o644)

    def _make_database(self) -> None:
        told = self._file["services"]["postgres"]["environment"]
        password = self._secrets["database"].read_text("utf-8").strip()
        self._database.execute(f"ALTER ROLE {told['POSTGRES_USER']} PASSWORD '{password}'")
        self._database.execute(f"CREATE DATABASE {told['POSTGRES_DB']}")
        (self._database.data / "pg_hba.conf").write_text(
            "host postgres all 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n", "utf-8"
        )
        self._database.execute("SELECT pg_reload_conf()")

    def _place_balancer(self) -> None:
        """Its configuration, with the addresses of this machine."""
        shutil.copytree(compose.ROOT / "deploy/balancer", self._balancer)
        pattern = r"address: ([\w.-]+), port_value: (\d+)"

        def here(match: re.Match[str]) -> str:
            return f"address: 127.0.0.1, port_value: {self._port('balancer', match[1], match[2])}"

        for path in self._balancer.iterdir():
            path.write_text(self._moved(re.sub(pattern, here, path.read_text("utf-8"))), "utf-8")

    def _port(self, name: str, host: str, port: str) -> int:
        """Where a service finds an address of the compose file."""
        own = host in {"0.0.0.0", "127.0.0.1"}  # noqa: S104 - as the file says
        return self._ports[name if own else host, port]

    def _moved(self, text: str) -> str:
        """A text with the files of this machine."""
        text = re.sub(r"/run/secrets/(\w+)", lambda match: str(self._secrets.get(match[1], match[0])), text)
        return text.replace("/etc/envoy", str(self._balancer))

    def placed(self, name: str, text: str) -> str:
        """A text of the compose file with the addresses and files of this machine."""

        def here(match: re.Match[str]) -> str:
            return f"127.0.0.1{match[2]}{self._port(name, match[1], match[3])}"

        text = re.sub(r"\b([\w.-]+)([:/])(50051|8080|9901)\b", here, text)
        return self._moved(text.replace("@postgres/", f"@127.0.0.1:{self._database.port}/"))

    @property
    def grpc(self) -> str:
        """The balancer's address, as gRPC clients call it."""
        return f"127.0.0.1:{self._ports['balancer', '8080']}"

    @property
    def tls(self) -> str:
        """The same, with TLS."""
        return f"localhost:{self._ports['balancer', '8443']}"

    @property
    def url(self) -> str:
        return f"http://{self.grpc}"

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        words = {}
        for name in LISTENING:
            own = [self.placed(name, word) for word in self._file["services"][name]["command"]]
            words[name] = [*self._a2ad, *own] if name != "balancer" else [str(compose.envoy()), *own[1:]]
        return words

    def up(self) -> None:
        """Start everything, as `depends_on` says."""
        for names in (SERVERS, GATEWAYS):
            with ThreadPoolExecutor(len(names)) as threads:
                list(threads.map(self.start, names))
        self.start("balancer")  # in no thread: Envoy ends with the thread that has started it

    def start(self, name: str) -> None:
        """Start a service, and wait until it is healthy."""
        told = compose.environment(self._file["services"][name], **self._variables) if name != "balancer" else {}
        environment = clean(**{variable: self.placed(name, value) for variable, value in told.items()})
        path = self._folder / f"{name}.log"
        path.touch()
        said = len(self.log(name))
        with path.open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._words[name], cwd=self._app, env=environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        # Asking takes a core, which a service needs for its start.
        while (name in {*SERVERS, *GATEWAYS} and '.started"' not in self.log(name)[said:]) or not self.is_healthy(name):
            assert self._running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.2)

    def is_healthy(self, name: str) -> bool:
        """Run a service's health check."""
        kind, *words = [self.placed(name, word) for word in self._file["services"][name]["healthcheck"]["test"]]
        assert kind == "CMD"
        if words[0] == "a2ad":
            words[:1] = self._a2ad
        done = subprocess.run(
            words, cwd=self._app, env=clean(), capture_output=True, timeout=PATIENCE, check=False, text=True
        )
        return done.returncode == 0

    def refused_by_balancer(self) -> list[str]:
        """The addresses to which the balancer sends no calls."""
        told = urlopen(f"http://127.0.0.1:{self._ports['balancer', '9901']}/clusters", timeout=PATIENCE).read().decode()
        return re.findall(r"::([\d.:]+)::health_flags::/", told)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> int:
        """Stop a service as an engine does; its exit status, and no patience beyond its grace period."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        grace = self._file["services"][name]["stop_grace_period"]
        return process.wait(int(grace.removesuffix("s")))

    def crash_database(self) -> None:
        """As after a loss of power: it comes back with what it had promised."""
        self._database.stop(signal.SIGQUIT)
        self._database.start()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        password = self._secrets["database"].read_text("utf-8").strip()
        return postgres.execute(f"postgresql://a2ad:{password}@127.0.0.1:{self._database.port}/a2a", statement)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text("utf-8")

    def close(self) -> None:
        for name in tuple(self._running):
            self.kill(name)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """The whole of it, running; whatever runs in the end is killed."""
    words = compose.read(compose.CLUSTER)["services"]["postgres"]["command"]
    with ExitStack() as stack:
        database = stack.enter_context(postgres.cluster(*[word for word in words[1:] if word != "-c"]))
        every = [(name, port) for name, ports in LISTENING.items() for port in ports]
        ports = {key: stack.enter_context(reserved()) for key in every}
        made = Cluster(folder, ports, database)
        stack.callback(made.close)
        made.up()
        yield made
