"""Settings: who wins, what is refused, and with which words."""

import json
import os
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest

from a2a_server.cli.configuration import TABLES, effective
from a2a_server.operations.limits import Limits
from a2a_server.protocol.options import LegacyOptions
from a2a_server.settings import Settings, SettingsError, load
from a2a_server.settings.sources import known
from a2a_server.transport.grpc_options import GrpcOptions, StreamOptions, Tls

HASH = "sha256:" + "0a" * 32
SHARDS = [
    {"name": "a", "dsn": "postgresql://u:pw@a/x", "slots": "0-2047"},
    {"name": "b", "dsn": "postgresql://b/x", "slots": "2048-4095"},
]


@pytest.fixture(autouse=True)
def _empty_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("A2A_")]:
        monkeypatch.delenv(name)


def test_the_defaults_are_those_of_the_parts() -> None:
    settings = load().settings
    assert settings == Settings()
    assert (settings.grpc, settings.http, settings.store) == ("127.0.0.1:50051", "127.0.0.1:8080", "sqlite:///a2a.db")
    assert (settings.limits, settings.streams, settings.transport, settings.tls) == (
        Limits(),
        StreamOptions(),
        GrpcOptions(),
        Tls(),
    )


def test_flags_win_over_environment_over_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a2ad.toml").write_text(
        'grpc = "127.0.0.1:1"\nstore = "sqlite:///file.db"\nagent = "file:agent"\n[limits]\nrunning_turns = 1\n'
    )
    monkeypatch.setenv("A2A_GRPC", "127.0.0.1:2")
    monkeypatch.setenv("A2A_STORE", "sqlite:///environment.db")
    loaded = load({"grpc": "127.0.0.1:3"})
    settings = loaded.settings
    assert (settings.grpc, settings.store, settings.agent) == ("127.0.0.1:3", "sqlite:///environment.db", "file:agent")
    assert settings.limits == Limits(running_turns=1)
    assert loaded.sources == {
        "grpc": "flag",
        "store": "environment A2A_STORE",
        "agent": "file a2ad.toml, line 3",
        "limits.running_turns": "file a2ad.toml, line 5",
    }


@pytest.mark.req("SCAL-05")
def test_databases_of_a_store_are_tables_or_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = "".join(
        f'[[postgresql.shards]]\nname = "{one["name"]}"\ndsn = "{one["dsn"]}"\nslots = "{one["slots"]}"\n'
        for one in SHARDS
    )
    Path("a2ad.toml").write_text(f'store = "postgresql://b/x"\n{tables}')
    loaded = load()
    assert [(one.name, one.dsn, one.slots) for one in loaded.settings.postgresql.shards] == [
        tuple(one.values()) for one in SHARDS
    ]
    assert "pw" not in effective(loaded)
    assert 'dsn = "postgresql://…@a/x"' in effective(loaded)
    Path("a2ad.toml").write_text("")
    monkeypatch.setenv("A2A_STORE", "postgresql://b/x")
    monkeypatch.setenv("A2A_POSTGRESQL__SHARDS", json.dumps(SHARDS))
    assert load().settings.postgresql == loaded.settings.postgresql


def test_every_setting_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "A2A_LIMITS__TURN_TIMEOUT": "1.5",
        "A2A_LIMITS__ACCEPT_UNKNOWN_CONTEXTS": "false",
        "A2A_STREAMS__PER_CALLER": "3",
        "A2A_TRANSPORT__REFLECTION": "no",
        "A2A_TENANTS": "north, south",
        "A2A_DEFAULT_TENANT": "north",
        "A2A_AUTH__TOKENS": f'[{{"owner": "ann", "hash": "{HASH}", "tenant": "south", "extended_card": true}}]',
        "A2A_AUTH__API_KEY_HEADER": "x-key",
        "A2A_LOG__FORMAT": "json",
        "A2A_STRICT_VERSION": "1",
        "A2A_GATEWAY__TRUSTED_PROXIES": "10.0.0.0/8, ::1",
        "A2A_GATEWAY__FORWARD_HEADERS": "a2a-*,x-team",
        "A2A_GATEWAY__CORS_ORIGINS": "https://a.example",
        "A2A_UPSTREAM__ADDRESSES": "a:1,b:2",
        "A2A_GATEWAY__CARD_FORM": "1.0",
        "A2A_CARD__DOORS": "jsonrpc, HTTP+JSON",
        "A2A_GATEWAY__PROFILES": "draft",
        "A2A_GATEWAY__DRAFT_PATH": "/a2a/2025-12",
        "A2A_LEGACY__ENABLED": "no",
        "A2A_LEGACY__WAIT": "always",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load().settings
    assert settings.limits == Limits(turn_timeout=1.5, accept_unknown_contexts=False)
    assert settings.streams.per_caller == 3
    assert not settings.transport.reflection
    assert settings.tenants == ("north", "south")
    assert settings.auth.tokens[0].digest == b"\x0a" * 32
    assert settings.auth.api_key_header == "x-key"
    assert settings.strict_version
    assert settings.gateway.trusted_proxies == ("10.0.0.0/8", "::1")
    assert settings.gateway.forward_headers == ("a2a-*", "x-team")
    assert settings.gateway.cors_origins == ("https://a.example",)
    assert settings.gateway.card_form == "1.0"
    assert settings.card.doors == ("jsonrpc", "rest")
    assert (settings.gateway.profiles, settings.gateway.draft_path) == (("draft",), "/a2a/2025-12")
    assert settings.upstream.addresses == ("a:1", "b:2")
    assert settings.legacy == LegacyOptions(enabled=False, wait="always")


def test_the_file_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("one.toml").write_text('store = "memory:"')
    Path("two.toml").write_text('store = "sqlite:///two.db"')
    monkeypatch.setenv("A2A_CONFIG", "one.toml")
    assert load().settings.store == "memory:"
    assert load(config="two.toml").settings.store == "sqlite:///two.db"


def test_credentials_may_live_in_a_file_of_their_own() -> None:
    Path("tokens.toml").write_text(f'[[tokens]]\nowner = "ann"\nhash = "{HASH}"\n')
    Path("a2ad.toml").write_text(
        f'[auth]\ntokens_file = "tokens.toml"\n[[auth.api_keys]]\nowner = "bob"\nhash = "{HASH}"\n'
    )
    auth = load().settings.auth
    assert [credential.owner for credential in auth.credentials] == ["ann", "bob"]


def test_hashes_never_show() -> None:
    settings = Settings(**tomllib.loads(f'[[auth.tokens]]\nowner = "ann"\nhash = "{HASH}"'))
    assert "0a0a" not in repr(settings) + str(settings)


TWO = [{"tenant": "one"}, {"tenant": "two"}]
CREDENTIAL = {"owner": "ann", "hash": HASH}

# what is set, where → what is said
WRONG = [
    ({"gateway": {"card_form": "2"}}, "gateway.card_form = '2' (flag): must be auto, 1.0 or 0.3"),
    (
        {"gateway": {"card_form": "0.3"}, "legacy": {"enabled": False}},
        "gateway.card_form = '0.3' (flag): needs legacy.enabled: 0.3 is not served",
    ),
    ({"legacy": {"wait": "perhaps"}}, "legacy.wait = 'perhaps' (flag): must be auto, always or never"),
    (
        {"legacy": {"input_request_members": "never"}},
        "legacy.input_request_members = 'never' (flag): must be asked or always",
    ),
    ({"grpc": "50051"}, "grpc = '50051' (flag): must be HOST:PORT, such as 127.0.0.1:50051"),
    ({"grpc": "0.0.0.0:1"}, "grpc = '0.0.0.0:1' (flag): without authentication only this machine may call"),
    ({"grpc": "agents.example:1"}, "or set anonymous_beyond_loopback"),
    ({"http": "0.0.0.0:8080"}, "http = '0.0.0.0:8080' (flag): without authentication only this machine may call"),
    ({"http": "8080"}, "http = '8080' (flag): must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:50051"),
    ({"public_url": "agents.example"}, "public_url = 'agents.example' (flag): must be a URL such as https://"),
    (
        {"gateway": {"trusted_proxies": "10.0.0.0/8,proxy"}},
        "gateway.trusted_proxies = 'proxy' (flag): must be addresses or networks, such as 10.0.0.0/8",
    ),
    (
        {"gateway": {"cors_origins": "console.example"}},
        "gateway.cors_origins = 'console.example' (flag): must be origins such as https://console.example, or *",
    ),
    (
        {"gateway": {"cors_origins": "https://a.example/page"}},
        "gateway.cors_origins = 'https://a.example/page' (flag): must be origins",
    ),
    ({"gateway": {"cors_origins": "null"}}, "gateway.cors_origins = 'null' (flag): must be origins"),
    (
        {"gateway": {"forward_headers": "x-team,Content-Type"}},
        "gateway.forward_headers = 'Content-Type' (flag): is a header that HTTP/2 or gRPC keep for themselves",
    ),
    ({"gateway": {"max_body_bytes": 0}}, "gateway.max_body_bytes = 0 (flag): must be at least 1"),
    ({"gateway": {"body_timeout": 0}}, "gateway.body_timeout = 0 (flag): must be greater than 0"),
    ({"gateway": {"keep_alive": "inf"}}, "gateway.keep_alive = 'inf' (flag): must be less than or equal"),
    ({"gateway": {"card_max_age": -1}}, "gateway.card_max_age = -1 (flag): must be at least 0"),
    ({"gateway": {"profiles": "draft,rough"}}, "gateway.profiles.1 = 'rough' (flag): must be draft"),
    ({"gateway": {"draft_path": ""}}, "gateway.draft_path = '' (flag): must be a path such as /draft"),
    ({"gateway": {"draft_path": "draft"}}, "gateway.draft_path = 'draft' (flag): must be a path such as /draft"),
    ({"gateway": {"draft_path": "/draft/"}}, "gateway.draft_path = '/draft/' (flag): must be a path such as /draft"),
    ({"gateway": {"draft_path": "/a//b"}}, "gateway.draft_path = '/a//b' (flag): must be a path such as /draft"),
    ({"gateway": {"draft_path": "/.."}}, "gateway.draft_path = '/..' (flag): must be a path such as /draft"),
    (
        {"gateway": {"draft_path": "/", "profiles": "draft"}},
        "gateway.draft_path = '/' (flag): /v1 is where 0.3 is served; set legacy.enabled = false, or choose another",
    ),
    ({"card": {"doors": []}}, "card.doors = [] (flag): must name at least one door"),
    ({"card": {"doors": "rest,soap"}}, "card.doors = 'soap' (flag): must be all, by itself, or doors from grpc, rest"),
    ({"card": {"doors": ["draft/rest"]}}, "card.doors = 'draft/rest' (flag): is not open; open are grpc, rest"),
    ({"gateway": {"draft_path": "/ä"}}, "gateway.draft_path = '/ä' (flag): must be a path such as /draft"),
    ({"gateway": {"draft_path": "/v1"}}, "gateway.draft_path = '/v1' (flag): /v1 is served already; choose another"),
    ({"gateway": {"draft_path": "/tasks/x"}}, "gateway.draft_path = '/tasks/x' (flag): /tasks is served already"),
    (
        {"gateway": {"profiles": "draft"}, "tenants": ["draft", "north"]},
        "gateway.draft_path = '/draft': /draft is where a tenant is served; choose another path",
    ),
    (
        {"gateway": {"profiles": ["draft"], "draft_path": "/north/draft"}, "default_tenant": "north"},
        "gateway.draft_path = '/north/draft' (flag): /north is where a tenant is served",
    ),
    ({"public_url": "ftp://agents.example"}, "public_url = 'ftp://agents.example' (flag): must be a URL such as"),
    ({"public_url": "https://agents.example?a=b"}, "(flag): must be a URL such as"),
    ({"public_url": "http://["}, "public_url = 'http://[' (flag): must be a URL such as"),
    (
        {"upstream": {"addresses": "127.0.0.1:1,agents.example"}},
        "upstream.addresses = 'agents.example' (flag): must be HOST:PORT, such as 127.0.0.1:50051",
    ),
    ({"upstream": {"addresses": ["a:99999"]}}, "upstream.addresses = 'a:99999' (flag): must be HOST:PORT"),
    (
        {"store": "mysql://x"},
        "store = 'mysql://x' (flag): must be memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE",
    ),
    ({"store": "sqlite:///"}, "must be memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE"),
    (
        {"store": "mysql://u:pw@db/a2a"},
        "store = 'mysql://…@db/a2a' (flag): must be memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE",
    ),
    (
        {"postgresql": {"wakeup_dsn": "mysql://u:pw@db/a2a"}},
        "postgresql.wakeup_dsn = 'mysql://…@db/a2a' (flag): must be postgresql://USER@HOST/DATABASE",
    ),
    (
        {"store": "postgresql://u:pw@c/x", "postgresql": {"shards": SHARDS}},
        "store = 'postgresql://…@c/x' (flag): must be the dsn of one of postgresql.shards, which has sessions",
    ),
    (
        {"postgresql": {"shards": SHARDS[:1]}},
        "postgresql.shards (flag): the slots 2048-4095 are in no database",
    ),
    (
        {"postgresql": {"shards": [*SHARDS, {"name": "c", "dsn": "postgresql://c/x", "slots": "7,4000-4001"}]}},
        "postgresql.shards (flag): the slots 7,4000-4001 are in several databases",
    ),
    (
        {"postgresql": {"shards": [*SHARDS, {"name": "a", "dsn": "postgresql://c/x"}]}},
        "postgresql.shards (flag): each must have a name of its own",
    ),
    (
        {"postgresql": {"shards": [*SHARDS, {"name": "c", "dsn": "postgres://b/x"}]}},
        "postgresql.shards (flag): each must have a dsn of its own",
    ),
    (
        {"postgresql": {"shards": [{"name": "a", "dsn": "postgresql://u:pw@a/x", "slots": "0-4096"}]}},
        "postgresql.shards.0.slots (flag): '0-4096' must be slots from 0 to 4095, such as 0-2047,3000",
    ),
    (
        {"postgresql": {"shards": [{"name": "a", "dsn": "mysql://u:pw@a/x"}]}},
        "postgresql.shards.0.dsn (flag): must be postgresql://USER@HOST/DATABASE",
    ),
    ({"postgresql": {"session": 1}}, "postgresql.session = 1 (flag): must be at least 2"),
    ({"error_codes": "0.3"}, "error_codes = '0.3' (flag): must be 1.0.1 or 1.0.0"),
    ({"strict_version": "perhaps"}, "strict_version = 'perhaps' (flag): must be true or false"),
    ({"loop_block_warning": -1}, "loop_block_warning = -1 (flag): must be at least 0"),
    ({"limits": {"running_turns": 0}}, "limits.running_turns = 0 (flag): must be at least 1"),
    ({"limits": {"turn_timeout": -0.5}}, "limits.turn_timeout = -0.5 (flag): must be at least 0"),
    ({"limits": {"turn_timeout": "nan"}}, "limits.turn_timeout = 'nan' (flag): must be a finite number"),
    ({"limits": {"running_turns": "many"}}, "limits.running_turns = 'many' (flag): must be a whole number"),
    ({"streams": {"write_timeout": 0}}, "streams.write_timeout = 0 (flag): must be greater than 0"),
    ({"transport": {"max_message_bytes": 0}}, "transport.max_message_bytes = 0 (flag): must be at least 1"),
    ({"tenants": ["north", "v1"]}, '"v1" is a fixed segment of the HTTP routes'),
    ({"default_tenant": "tasks"}, "default_tenant = 'tasks' (flag): \"tasks\" is a fixed segment"),
    ({"tenants": ["a"], "default_tenant": "b"}, "default_tenant = 'b' (flag): must be one of the tenants: a"),
    ({"agents": TWO, "default_tenant": "b"}, "default_tenant = 'b' (flag): must be one of the tenants: one, two"),
    ({"agents": [*TWO, {"tenant": "one"}]}, 'several agents have the tenant "one"; each needs one of its own'),
    ({"agents": [{"tenant": "v1"}]}, "agents.0.tenant = 'v1' (flag): is a fixed segment of the HTTP routes"),
    ({"agents": [{"agent": "x.py"}]}, "agents.0.tenant"),
    ({"agents": [{"tenant": "one", "scopes": "a b"}]}, "must be names of scopes"),
    ({"agents": "one"}, """must be a JSON array such as [{"tenant": "weather", "agent": "weather.py"}]"""),
    ({"agents": TWO, "agent": "x.py"}, "agent = 'x.py' (flag): is one agent, and [[agents]] are several; choose one"),
    ({"agents": TWO, "tenants": ["one"]}, "leave it out: the tenants are those of [[agents]]"),
    ({"directory": "All"}, "directory = 'All' (flag): lists several agents; there are no [[agents]]"),
    ({"agents": TWO, "directory": "All", "default_tenant": "one"}, "has no effect with `directory`"),
    ({"agents": [{"tenant": "one", "listed": False}], "directory": "All"}, "would list nobody"),
    ({"agents": [{"tenant": "one", "listed": False}]}, "agents = 'one' (flag): its card is at the root, and it has"),
    ({"agents": [{"tenant": "one", "turn_timeout": "nan"}]}, "agents.0.turn_timeout = 'nan' (flag): must be a finite"),
    (
        {"agents": TWO, "auth": {"tokens": [{**CREDENTIAL, "tenant": "b"}]}},
        "callers are bound to tenants that are not among those of [[agents]]",
    ),
    (
        {"agents": [{"tenant": "draft"}], "gateway": {"profiles": ["draft"]}},
        "/draft is where a tenant is served; choose another path",
    ),
    (
        {"tenants": ["a"], "auth": {"tokens": [{**CREDENTIAL, "tenant": "b"}]}},
        "auth = ['b'] (auth.tokens: flag): callers are bound",
    ),
    ({"tls": {"cert": "c.pem"}}, "tls.key = '' (tls.cert: flag): certificate and key are needed together"),
    ({"tls": {"key": "k.pem"}}, "tls.cert = '' (tls.key: flag): certificate and key are needed together"),
    ({"tls": {"client_ca": "ca.pem"}}, "tls.client_ca = 'ca.pem' (flag): needs tls.cert and tls.key as well"),
    ({"wakeups": "pigeons"}, "wakeups = 'pigeons' (flag): must be postgres, peers or none"),
    (
        {"wakeups": "peers"},
        "wakeups = 'peers' (flag): needs a store that servers can share: PostgreSQL",
    ),
    (
        {"wakeups": "peers", "store": "postgresql://a@b/c", "peers": {"listen": "0.0.0.0:50052"}},
        "peers.listen = '0.0.0.0:50052' (flag): beyond this machine servers must know each other; set peers.shared_key",
    ),
    ({"peers": {"listen": "here"}}, "peers.listen = 'here' (flag): must be HOST:PORT, such as 127.0.0.1:50051"),
    (
        {"peers": {"advertise": "10.0.0.7:0"}},
        "peers.advertise = '10.0.0.7:0' (flag): must be HOST:PORT at which other servers reach this one, such as ",
    ),
    (
        {"peers": {"shared_key": "too short"}},
        "peers.shared_key (flag): must have at least 32 characters; make one with: openssl rand -base64 32",
    ),
    ({"peers": {"shared_key": "file:none"}}, "peers.shared_key (flag): the file 'none' cannot be read"),
    (
        {"peers": {"cert": "c.pem", "key": "k.pem"}},
        "peers.ca = '' (peers.cert: flag): certificate, key and authority are needed together",
    ),
    (
        {"peers": {"cert": "c.pem", "key": "k.pem", "ca": "ca.pem", "shared_key": "k" * 32}},
        "peers.cert = 'c.pem' (flag): is given, so that peers.shared_key is of no use; choose one",
    ),
    ({"public_grpc": "https://agents.example"}, "public_grpc = 'https://agents.example' (flag): must be HOST:PORT of"),
    ({"public_grpc": "agents.example"}, "(flag): must be HOST:PORT of the gRPC door, such as agents.example:443"),
    (
        {"public_grpc": "agents.example:0"},
        "public_grpc = 'agents.example:0' (flag): must be HOST:PORT of the gRPC door",
    ),
    ({"public_grpc": "http://agents.example:443"}, "(flag): must be HOST:PORT of the gRPC door"),
    ({"public_grpc": "agents.example/a2a:443"}, "(flag): must be HOST:PORT of the gRPC door"),
    ({"gateway": {"profiles": "drft"}}, "gateway.profiles.0 = 'drft' (flag): must be draft"),
    ({"gateway": {"body_timeout": "long"}}, "gateway.body_timeout = 'long' (flag): must be a number"),
    ({"tenants": 3}, "tenants = 3 (flag): must be a list"),
    ({"tenants": "[3]"}, "tenants.0 = 3 (flag): must be a text"),
    ({"auth": {"tokens": "[1]"}}, "auth.tokens.0 (flag): must be a table"),
    ({"auth": {"tokens": [{"owner": "ann"}]}}, "auth.tokens.0.hash (flag): is missing"),
    (
        {"upstream": {"cert": "c.pem"}},
        "upstream.key = '' (upstream.cert: flag): certificate and key are needed together",
    ),
    (
        {"upstream": {"key": "k.pem"}},
        "upstream.cert = '' (upstream.key: flag): certificate and key are needed together",
    ),
    ({"push": {"trust": "junk.toml"}}, "push.trust = 'junk.toml' (flag): is not a PEM file of certificates"),
    ({"push": {"trust": "none.pem"}}, "push.trust = 'none.pem' (flag): cannot be read: No such file or directory"),
    ({"auth": {"tokens": [{"owner": "ann", "hash": "hunter2"}]}}, "never the secret itself"),
    ({"auth": {"tokens": [{"owner": "", "hash": HASH}]}}, "auth.tokens.0.owner (flag): must have at least 1"),
    ({"auth": {"tokens": [{**CREDENTIAL, "extra": 1}]}}, "auth.tokens.0.extra (flag): is not a setting"),
    ({"auth": {"tokens": "hunter2"}}, "auth.tokens (flag): must be a JSON array"),
    ({"auth": {"api_key_header": "a b"}}, "auth.api_key_header = 'a b' (flag): must match pattern"),
    ({"auth": {"tokens_file": "none.toml"}}, "auth.tokens_file = 'none.toml' (flag): cannot be read: No such file"),
    ({"auth": {"tokens_file": "junk.toml"}}, "auth.tokens_file = 'junk.toml' (flag): must be a TOML file"),
    ({"log": {"level": "loud"}}, "log.level = 'loud' (flag): must be debug, info, warning or error"),
]


@pytest.mark.parametrize(("flags", "message"), WRONG, ids=[str(flags) for flags, _ in WRONG])
def test_a_wrong_value_is_named_with_what_would_be_right(flags: dict[str, object], message: str) -> None:
    Path("junk.toml").write_text("hunter2")
    with pytest.raises(SettingsError) as caught:
        load(flags)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "pw@" not in str(caught.value)


def test_a_tenant_may_have_the_name_of_a_path_that_is_not_served() -> None:
    assert load({"tenants": ["draft"]}).settings.gateway.profiles == ()


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load({"grpc": "x", "store": "y", "limits": {"running_turns": "z"}})
    assert len(str(caught.value).splitlines()) == 3


FAULTY = """\
grcp = "127.0.0.1:1"
public_url = "agents.example"

[limit]
running_turns = 1

[limits]
running_turns = "many"
turn_timeout = -1
waiting_messages = [1]

[upstream]
cert = "c.pem"

[gateway]
card_form = "0.3"
draft_path = "/north"
profiles = ["draft"]

[legacy]
enabled = false

[tls]
key = '''
k.pem'''
cert = 3
client_ca = "ca.pem"

[[auth.tokens]]
owner = "ann"
hash = "sha256:0"

[[auth.tokens]]
owner = ""
hash = "sha256:1"

[transport]
reflection = "perhaps"

[transport.deeper]
reflection = true
"""


def test_all_faults_of_all_sources_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is faulty is left out, so that nothing is said of others that may be right with it."""
    Path("a2ad.toml").write_text(FAULTY)
    monkeypatch.setenv("A2A_STREAMS__PER_CALER", "1")
    monkeypatch.setenv("A2A_TRANSPORT__REFLECTION", "maybe")
    monkeypatch.setenv("A2A_TENANTS", "north,south")
    monkeypatch.setenv("A2A_DEFAULT_TENANT", "east")
    monkeypatch.setenv("A2A_AUTH__TOKENS_FILE", "none.toml")
    with pytest.raises(SettingsError) as caught:
        load({"log": {"level": "loud"}, "grpc": "0.0.0.0:1"})
    assert str(caught.value).splitlines() == [
        "a2ad.toml, line 1: unknown setting grcp; did you mean grpc?",
        "a2ad.toml, line 5: unknown setting limit.running_turns; did you mean limits.running_turns?",
        "a2ad.toml, line 41: unknown setting transport.deeper.reflection; did you mean transport.reflection?",
        "unknown variable A2A_STREAMS__PER_CALER; did you mean A2A_STREAMS__PER_CALLER?",
        (
            "public_url = 'agents.example' (file a2ad.toml, line 2): must be a URL such as "
            "https://agents.example or https://example.com/a2a"
        ),
        "limits.running_turns = 'many' (file a2ad.toml, line 8): must be a whole number",
        "limits.waiting_messages = [1] (file a2ad.toml, line 10): must be a whole number",
        "limits.turn_timeout = -1 (file a2ad.toml, line 9): must be at least 0",
        "transport.reflection = 'maybe' (environment A2A_TRANSPORT__REFLECTION): must be true or false",
        "tls.cert = 3 (file a2ad.toml, line 26): must be a text",
        (
            "auth.tokens.0.hash (file a2ad.toml, line 31): must be the sha256:… line that `a2ad token new` "
            "prints, never the secret itself"
        ),
        "auth.tokens.1.owner (file a2ad.toml, line 34): must have at least 1 character",
        (
            "auth.tokens.1.hash (file a2ad.toml, line 35): must be the sha256:… line that `a2ad token new` "
            "prints, never the secret itself"
        ),
        "log.level = 'loud' (flag): must be debug, info, warning or error",
        "auth.tokens_file = 'none.toml' (environment A2A_AUTH__TOKENS_FILE): cannot be read: No such file or directory",
        "upstream.key = '' (upstream.cert: file a2ad.toml, line 13): certificate and key are needed together",
        "default_tenant = 'east' (environment A2A_DEFAULT_TENANT): must be one of the tenants: north, south",
        "gateway.card_form = '0.3' (file a2ad.toml, line 16): needs legacy.enabled: 0.3 is not served",
        (
            "gateway.draft_path = '/north' (file a2ad.toml, line 17): /north is where a tenant is "
            "served; choose another path"
        ),
    ]


def test_an_unusable_file_hides_nothing_that_is_wrong_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tokens.toml").write_text(f'[[tokens]]\nowner = "ann"\n[[api_keys]]\nowner = ""\nhash = "{HASH}"\n')
    monkeypatch.setenv("A2A_CONFIG", "none.toml")
    monkeypatch.setenv("A2A_XYZZY", "1")
    monkeypatch.setenv("A2A_AUTH__TOKENS_FILE", "tokens.toml")
    with pytest.raises(SettingsError) as caught:
        load({"store": "y"}, needed={"public_url": "is needed", "agent": "is needed"})
    assert str(caught.value).splitlines() == [
        "A2A_CONFIG = 'none.toml': cannot be read: No such file or directory",
        "unknown variable A2A_XYZZY",
        "store = 'y' (flag): must be memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE",
        (
            "auth.tokens_file = 'tokens.toml' (environment A2A_AUTH__TOKENS_FILE): must be a TOML file of [[tokens]] "
            "and [[api_keys]] with owner and hash; see tokens.0.hash, api_keys.0.owner"
        ),
        "public_url: is needed",
    ]


@pytest.mark.parametrize(
    "flags",
    [
        {"grpc": "0.0.0.0:1", "anonymous_beyond_loopback": True},
        {"grpc": "0.0.0.0:1", "auth": {"tokens": [CREDENTIAL]}},
        {"grpc": "[::1]:1"},
        {"grpc": "localhost:1"},
        {"store": "sqlite:////var/lib/a2a.db"},
        {"store": "memory:"},
        {"tenants": ["a", "b"], "default_tenant": "b"},
        {"http": "none"},
        {"http": "[::1]:0"},
        {"public_url": "https://example.com/a2a/"},
        {"upstream": {"addresses": "127.0.0.1:1, [::1]:2, dns:///agents:3"}},
        {"gateway": {"cors_origins": "*"}},
        {"gateway": {"cors_origins": "https://a.example, http://localhost:3000/"}},
        {"gateway": {"trusted_proxies": "10.0.0.0/8, ::1, 192.0.2.1/24"}},
    ],
)
def test_right_values_are_taken(flags: dict[str, object]) -> None:
    assert load(flags)


def test_an_unknown_variable_is_named_with_its_likely_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_LIMITS__RUNING_TURNS", "1")
    monkeypatch.setenv("A2A_XYZZY", "1")
    with pytest.raises(SettingsError) as caught:
        load()
    assert str(caught.value).splitlines() == [
        "unknown variable A2A_LIMITS__RUNING_TURNS; did you mean A2A_LIMITS__RUNNING_TURNS?",
        "unknown variable A2A_XYZZY",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[limit]\nrunning_turns = 1",
            "a2ad.toml, line 2: unknown setting limit.running_turns; did you mean limits.runn",
        ),
        ("grcp = 'x'", "a2ad.toml, line 1: unknown setting grcp; did you mean grpc?"),
        ("limits = 3", "a2ad.toml, line 1: limits must be a table: [limits]"),
        ("# none\n[limit]", "a2ad.toml, line 2: unknown setting limit; did you mean limits?"),
        ("\n\n[grpc]\nx = 1", "grpc = {'x': 1} (file a2ad.toml, line 3): must be a text"),
        ("grpc = ", "a2ad.toml: is not TOML"),
    ],
)
def test_an_unusable_file_is_named(text: str, message: str) -> None:
    Path("a2ad.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load()
    assert message in str(caught.value)


def test_a_missing_file_that_was_named_is_a_fault_of_whoever_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_CONFIG", "none.toml")
    with pytest.raises(SettingsError, match=r"^A2A_CONFIG = 'none\.toml': cannot be read: No such file"):
        load()
    with pytest.raises(SettingsError, match=r"^--config = 'other\.toml': cannot be read: No such file"):
        load(config="other.toml")
    Path("junk.toml").write_text("[")
    monkeypatch.setenv("A2A_CONFIG", "junk.toml")
    with pytest.raises(SettingsError, match=r"^A2A_CONFIG = 'junk\.toml': is not TOML"):
        load()


LISTS = {
    "auth.require": "names",
    "tenants": "names",
    "auth.proxy.certificates": "names",
    "auth.proxy.networks": "names",
    "card.doors": "names",
    "gateway.cors_origins": "names",
    "gateway.forward_headers": "names",
    "gateway.forward_well_known": "names",
    "gateway.hosts": "names",
    "gateway.profiles": "names",
    "gateway.trusted_proxies": "names",
    "calls.allow_hosts": "names",
    "calls.allow_networks": "names",
    "calls.deny_hosts": "names",
    "calls.deny_networks": "names",
    "calls.ports": "names",
    "calls.transports": "names",
    "calls.versions": "names",
    "push.allow_hosts": "names",
    "push.allow_networks": "names",
    "push.deny_hosts": "names",
    "push.deny_networks": "names",
    "push.nat64_prefixes": "names",
    "push.ports": "names",
    "push.secret_keys": "keys",
    "store_keys": "keys",
    "card.signing_keys": "keys",
    "push.signing_keys": "keys",
    "upstream.addresses": "names",
}


def variable(name: str) -> str:
    return "A2A_" + name.replace(".", "__").upper()


@pytest.mark.parametrize("text", ["[abc", '["abc'])
@pytest.mark.parametrize(("name", "what"), LISTS.items())
def test_half_an_array_is_no_list(monkeypatch: pytest.MonkeyPatch, name: str, what: str, text: str) -> None:
    monkeypatch.setenv(variable(name), text)
    with pytest.raises(SettingsError) as caught:
        load()
    value = "" if what == "keys" else f" = {text!r}"
    assert (
        str(caught.value)
        == f"{name}{value} (environment {variable(name)}): must be {what} separated by commas, or a JSON array"
    )


def test_a_list_may_be_written_in_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("north, south", '["north", "south"]'):
        monkeypatch.setenv("A2A_TENANTS", text)
        assert load().settings.tenants == ("north", "south")
    for text in ("[::1]:1, [::2]:2", '["[::1]:1", "[::2]:2"]'):
        monkeypatch.setenv("A2A_UPSTREAM__ADDRESSES", text)
        assert load().settings.upstream.addresses == ("[::1]:1", "[::2]:2")


def test_every_list_is_tried() -> None:
    """One that is added belongs among them."""
    lists = {name for name in known() if isinstance(_default(name), tuple)}
    assert lists - set(TABLES) == set(LISTS)


def _default(name: str) -> object:
    section, _, last = name.rpartition(".")
    return getattr(attrgetter(section)(Settings()) if section else Settings(), last)


def test_what_other_agents_are_shown_is_printed_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_CALLS__CREDENTIALS", '[{"hosts": ["x.example"], "bearer": "t0ken", "api_key": "k3y"}]')
    loaded = load()
    told = effective(loaded) + repr(loaded.settings)
    assert "x.example" in told
    assert "t0ken" not in told
    assert "k3y" not in told
    monkeypatch.setenv("A2A_CALLS__CREDENTIALS", '[{"hosts": ["x.example"]}]')
    with pytest.raises(SettingsError, match="needs a bearer token or an api_key"):
        load()


def test_names_are_unique() -> None:
    assert len(known()) == len(set(known()))


def test_tables_inside_tables_are_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a2ad.toml").write_text("[auth.proxy]\nowner_header = 'x-user'\nnetworks = ['10.0.0.0/8']\n")
    monkeypatch.setenv("A2A_AUTH__PROXY__OWNER_HEADER", "x-forwarded-user")
    proxy = load().settings.auth.proxy
    assert (proxy.owner_header, proxy.networks) == ("x-forwarded-user", ("10.0.0.0/8",))
    monkeypatch.setenv("A2A_AUTH__PROXY__SECRET_HASH", "hush")
    with pytest.raises(SettingsError) as caught:
        load()
    assert "auth.proxy.secret_hash (environment A2A_AUTH__PROXY__SECRET_HASH): must be" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.req("KEPT-01")
@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("1.5", 1.5),
        ("30d", 2_592_000),
        ("12h", 43_200),
        ("2w", 1_209_600),
        ("5M", 300),
        ("1y", 31_536_000),
    ],
)
def test_ages_are_seconds_or_have_a_unit(monkeypatch: pytest.MonkeyPatch, told: str, seconds: float) -> None:
    monkeypatch.setenv("A2A_RETENTION__TASKS", told)
    assert load().settings.retention.tasks == seconds
    assert load().settings.retention.events == 0


@pytest.mark.req("KEPT-01")
@pytest.mark.parametrize("told", ["-1", "-5d", "d", "30 days", "inf", "nan", "1e12", "1q"])
def test_other_ages_are_refused(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("A2A_RETENTION__EVENTS", told)
    with pytest.raises(SettingsError, match=r"retention\.events"):
        load()
