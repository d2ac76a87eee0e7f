"""How settings become deliveries (spec: SSRF-03, CAPA-02, CONF-36, CONF-63)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from pydantic import ValidationError
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import SystemClock
from a2a_server.operations.push.configs import form_of
from a2a_server.operations.push.push_options import Patience
from a2a_server.ports.store import StoreRefused
from a2a_server.serve.parts import UnusableKeys, delivery_of, documents_of, forms_of, push_admin_of
from a2a_server.settings import Settings, load
from a2a_server.settings.sections import Push


def faults(url: str, **push: object) -> list[str]:
    delivery = delivery_of(Settings(push=Push(**push)), SystemClock(), "")
    assert delivery is not None
    return [fault.description for fault in delivery.sender.faults(pb.TaskPushNotificationConfig(url=url))]


@pytest.mark.req("SSRF-03", "CONF-63")
@pytest.mark.parametrize(
    ("url", "push"),
    [
        ("https://client.example/", {}),
        ("https://10.1.2.3/", {"allow_networks": "10.1.0.0/16"}),
        ("http://client.example/", {"https_only": False}),
        ("http://127.0.0.1:1024/", {"allow_loopback": True}),
        ("https://a.client.example/", {"allow_hosts": ".client.example, other.example"}),
        ("https://client.example:22/", {"ports": "22,443"}),
    ],
)
def test_what_settings_allow(url: str, push: dict[str, object]) -> None:
    assert faults(url, **push) == []
    assert faults(url) == [] or push


@pytest.mark.req("SSRF-03", "CONF-63")
@pytest.mark.parametrize(
    ("url", "push"),
    [
        ("https://10.1.2.3/", {}),
        ("http://client.example/", {}),
        ("http://127.0.0.1:1024/", {}),
        ("https://client.example/", {"deny_hosts": "client.example"}),
        ("https://client.example/", {"allow_hosts": ".client.example"}),
        ("https://93.184.216.34/", {"deny_networks": "93.184.0.0/16"}),
        ("https://client.example:8443/", {"ports": "443"}),
    ],
)
def test_what_settings_refuse(url: str, push: dict[str, object]) -> None:
    assert faults(url, **push)


@pytest.mark.req("CONF-63")
def test_the_development_switch_says_so_at_start() -> None:
    with capture_logs() as logs:
        delivery_of(Settings(), SystemClock(), "")
        assert not logs
        delivery_of(Settings(push=Push(allow_loopback=True)), SystemClock(), "")
    assert [entry["event"] for entry in logs] == ["push.loopback_allowed"]


@pytest.mark.req("SECR-06")
async def test_authorities_may_have_comments_in_any_alphabet(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes("# Größe\n".encode() + trustme.CA().cert_pem.bytes())
    delivery = delivery_of(Settings(push=Push(trust=str(path))), SystemClock(), "")
    assert delivery is not None
    await delivery.sender.open()
    await delivery.sender.close()


@pytest.mark.req("CAPA-02")
def test_off_is_off() -> None:
    assert delivery_of(Settings(push=Push(enabled=False)), SystemClock(), "") is None


def test_patience_is_set_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Push().patience == Patience()
    monkeypatch.setenv("A2A_PUSH__GIVE_UP_AFTER", "3")
    monkeypatch.setenv("A2A_PUSH__RETRY_FIRST", "0.5")
    delivery = delivery_of(load().settings, SystemClock(), "")
    assert delivery is not None
    assert delivery.patience == Patience(give_up_after=3, retry_first=0.5)


def test_each_version_has_its_form_and_others_that_of_1_0() -> None:
    forms = forms_of()
    assert set(forms) == {"1.0", "0.3", "draft"}
    assert form_of(forms, "2.0") == forms["1.0"]
    assert [form_of(forms, version).whole for version in ("1.0", "0.3", "draft")] == [False, True, False]


def test_keys_in_the_environment_may_be_a_list_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("one, two", '["one", "two"]'):
        monkeypatch.setenv("A2A_PUSH__SECRET_KEYS", text)
        keys = load().settings.push.secret_keys
        assert [key.get_secret_value() for key in keys] == ["one", "two"]
        assert "one" not in repr(keys)
        with pytest.raises(UnusableKeys, match="secret_keys"):
            delivery_of(load().settings, SystemClock(), "")
    with pytest.raises(ValidationError):
        Push(secret_keys="[1, 2")


@pytest.mark.req("PAID-05")
def test_without_keys_there_is_no_page_of_keys() -> None:
    assert documents_of(Settings()) == {}


def test_books_are_those_of_a_file() -> None:
    with pytest.raises(StoreRefused, match="memory:"):
        push_admin_of(Settings(store="memory:"))
