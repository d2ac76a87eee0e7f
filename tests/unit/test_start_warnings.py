"""What a start warns of, by the settings: each once, with a stable name and the cure."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_server.serve import relaying, running
from a2a_server.settings import Settings
from tests.support.door_agent import agent

KNOWN = {"tokens": [{"owner": "ann", "hash": "sha256:" + "0" * 64}]}
OPEN = {"grpc": "0.0.0.0:0"}
SEALED = {"push": {"secret_keys": [base64.b64encode(os.urandom(32)).decode()]}}
SERVED = {**OPEN, "auth": KNOWN, "public_url": "https://a.example"}
FILE = {"store": "sqlite:///{}/a.db"}
ROOT = Path(__file__).parents[2]


async def warned(*, relay: bool = False, **settings: Any) -> list[Any]:
    given = Settings(**{"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0", **settings})
    with capture_logs() as logs:
        async with relaying(given) if relay else running(given, agent):
            pass
    found = [line for line in logs if line["event"].startswith("start.")]
    assert all(line["log_level"] == "warning" and line["why"] and line["cure"] for line in found)
    return found


TABLE = [
    ("nothing", {}, []),
    ("callers without TLS on this machine", {"auth": KNOWN}, []),
    ("callers without TLS on others", {**OPEN, "auth": KNOWN}, ["start.credentials_in_plain_text"]),
    ("behind a proxy with TLS", {**OPEN, "auth": KNOWN, "public_url": "https://a.example"}, []),
    ("anybody", {**OPEN, "anonymous_beyond_loopback": True}, ["start.anonymous_beyond_loopback"]),
    ("anybody here", {"anonymous_beyond_loopback": True}, []),
    ("any page", {"gateway": {"cors_origins": ["*"]}}, ["start.any_origin_without_authentication"]),
    ("any page with a token", {"gateway": {"cors_origins": ["*"]}, "auth": KNOWN}, []),
    ("one page", {"gateway": {"cors_origins": ["https://a.example"]}}, []),
    ("a file on this machine", FILE, []),
    ("a file, for others", {**FILE, **SERVED}, ["start.webhook_secrets_unsealed"]),
    ("a file behind a URL", {**FILE, "public_url": "https://a.example"}, ["start.webhook_secrets_unsealed"]),
    (
        "a file behind a proxy",
        {**FILE, "gateway": {"trusted_proxies": ["127.0.0.1/32"]}},
        ["start.webhook_secrets_unsealed"],
    ),
    ("a file, sealed", {**FILE, **SERVED, **SEALED}, []),
    ("a file, all content sealed", {**FILE, **SERVED, "store_keys": SEALED["push"]["secret_keys"]}, []),
    ("a file, no webhooks", {**FILE, **SERVED, "push": {"enabled": False}}, []),
    ("memory", {**SERVED, "store": "memory:"}, []),
]


@pytest.mark.req("SECR-05")
@pytest.mark.parametrize(("settings", "names"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
async def test_what_a_server_warns_of(settings: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    if "store" in settings:
        settings = {**settings, "store": settings["store"].format(tmp_path)}
    assert [line["event"] for line in await warned(**settings)] == names


@pytest.mark.req("SECR-05")
async def test_a_gateway_warns_of_plain_text_on_both_sides() -> None:
    near = {"addresses": ["127.0.0.1:1"]}
    assert await warned(relay=True, upstream=near) == []
    found = await warned(
        relay=True, http="0.0.0.0:0", upstream={"addresses": ["192.0.2.1:443"]}, anonymous_beyond_loopback=True
    )
    assert [line["event"] for line in found] == ["start.credentials_in_plain_text", "start.upstream_in_plain_text"]


@pytest.mark.req("SECR-03", "SECR-05")
async def test_files_that_others_can_write_or_read(tmp_path: Path) -> None:
    key, seal, tokens, store, audit = (tmp_path / name for name in ("key", "seal", "tokens", "a.db", "audit.log"))
    for file in (key, seal):
        file.write_text(base64.b64encode(os.urandom(32)).decode())
    tokens.write_text(f'[[tokens]]\nowner = "ann"\nhash = "sha256:{"0" * 64}"\n')
    store.touch()
    audit.touch()
    settings: dict[str, Any] = {
        "store": f"sqlite:///{store}",
        "push": {"secret_keys": [f"file:{key}"]},
        "store_keys": [f"file:{seal}"],
        "auth": {"tokens_file": str(tokens)},
        "audit": {"to": f"file:{audit}"},
    }
    for path in (key, seal, tokens, store, audit):
        path.chmod(0o640)
    assert await warned(**settings) == []
    for path in (key, seal, tokens, store, audit):
        path.chmod(0o646)
    found = {(line["event"], Path(line["what"]).name) for line in await warned(**settings)}
    written = {("start.file_others_can_write", path.name) for path in (key, seal, tokens, store, audit)}
    assert found == written | {("start.file_others_can_read", name) for name in ("key", "seal")}


@pytest.mark.req("SECR-05")
def test_the_page_has_every_name() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    source = (ROOT / "a2a_server" / "serve" / "start_warnings.py").read_text()
    names = set(re.findall(r'"(start\.\w+)"', source))
    assert len(names) == 7
    assert all(f"`{name}`" in page for name in names)
