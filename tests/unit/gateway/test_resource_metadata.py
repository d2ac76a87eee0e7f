"""Protected Resource Metadata (RFC 9728), and the challenges that name it."""

import pytest

from a2a_gateway.cards.resource_metadata import resource_metadata, with_metadata
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.names import resource_metadata_url

URL = "https://x.example/.well-known/oauth-protected-resource"
NAMED = f'resource_metadata="{URL}"'


@pytest.mark.req("GATE-06")
@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://x.example", URL),
        ("https://x.example/", URL),
        ("https://x.example:8443/a2a", "https://x.example:8443/.well-known/oauth-protected-resource/a2a"),
        ("https://x.example/a/b/", "https://x.example/.well-known/oauth-protected-resource/a/b"),
        ("http://[::1]:80/a", "http://[::1]:80/.well-known/oauth-protected-resource/a"),
    ],
)
def test_the_well_known_path_stands_before_the_own_path(base: str, url: str) -> None:
    assert resource_metadata_url(base) == url


@pytest.mark.parametrize(
    ("challenge", "completed"),
    [
        ("Bearer", f"Bearer {NAMED}"),
        ("bearer", f"bearer {NAMED}"),
        ('Bearer realm="a2a"', f'Bearer realm="a2a", {NAMED}'),
        ('Basic realm="x", Bearer', f'Basic realm="x", Bearer {NAMED}'),
        ('Bearer, Basic realm="x"', f'Bearer {NAMED}, Basic realm="x"'),
        ('ApiKey header="k", Bearer realm="a"', f'ApiKey header="k", Bearer realm="a", {NAMED}'),
        (
            'Bearer realm="a", resource_metadata="http://10.0.0.1/", error="invalid_token"',
            f'Bearer realm="a", {NAMED}, error="invalid_token"',
        ),
        ('Basic realm="x"', 'Basic realm="x"'),
        ('Bearer realm="a,b", scope="c", ApiKey x="y"', f'Bearer realm="a,b", scope="c", {NAMED}, ApiKey x="y"'),
        ('ApiKey header="X-Bearer"', 'ApiKey header="X-Bearer"'),
        ("", ""),
    ],
)
def test_a_challenge_for_tokens_names_the_metadata(challenge: str, completed: str) -> None:
    assert with_metadata(challenge, URL) == completed


def card(**schemes: pb.SecurityScheme) -> pb.AgentCard:
    return pb.AgentCard(name="Echo", security_schemes=schemes)


CONNECT = "https://id.example/realms/main/.well-known/openid-configuration"
OAUTH = "https://id.example/.well-known/oauth-authorization-server/realms/main"
SCOPES = {"a2a:read": "", "a2a:SendMessage": ""}


@pytest.mark.req("GATE-06", "GATE-02")
def test_it_says_what_the_card_says() -> None:
    flows = pb.OAuthFlows(client_credentials=pb.ClientCredentialsOAuthFlow(token_url="https://t", scopes=SCOPES))
    told = card(
        oidc=pb.SecurityScheme(open_id_connect_security_scheme={"open_id_connect_url": CONNECT}),
        oauth2=pb.SecurityScheme(oauth2_security_scheme={"flows": flows, "oauth2_metadata_url": OAUTH}),
        other=pb.SecurityScheme(oauth2_security_scheme={"oauth2_metadata_url": "https://other.example/metadata"}),
        bearer=pb.SecurityScheme(http_auth_security_scheme={"scheme": "bearer"}),
    )
    told.documentation_url = "https://docs.example"
    told.security_requirements.add().schemes["oidc"].list.append("openid")
    told.security_requirements.add().schemes["apiKey"].list.append("no scope of tokens")
    told.skills.add().security_requirements.add().schemes["oauth2"].list.append("booking")
    assert resource_metadata(told, "https://x.example") == {
        "resource": "https://x.example",
        "authorization_servers": ["https://id.example/realms/main"],
        "scopes_supported": ["a2a:SendMessage", "a2a:read", "booking", "openid"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Echo",
        "resource_documentation": "https://docs.example",
    }


def test_where_tokens_are_not_taken_there_is_none() -> None:
    key = pb.SecurityScheme(api_key_security_scheme={"location": "header", "name": "k"})
    basic = pb.SecurityScheme(http_auth_security_scheme={"scheme": "Basic"})
    assert resource_metadata(card(), "https://x.example") is None
    assert resource_metadata(card(apiKey=key, basic=basic), "https://x.example") is None
