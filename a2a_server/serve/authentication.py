"""The authenticator that the settings describe (spec: GATE-01, GATE-02)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack

from a2a_proto import a2a_pb2 as pb
from a2a_server import __version__
from a2a_server.adapters.auth.certificate import CertificateRule, CertificateScheme
from a2a_server.adapters.auth.guess_limit import GuessLimit
from a2a_server.adapters.auth.introspection import IntrospectionScheme, Provider
from a2a_server.adapters.auth.issuer import IssuerKeys, IssuerScheme, metadata_urls
from a2a_server.adapters.auth.proxy import ConnectionCheck, ProxyScheme, ProxyTrust
from a2a_server.adapters.auth.schemes import Scheme, Schemes
from a2a_server.adapters.auth.tokens import CallerRules, TokenRules
from a2a_server.adapters.auth.verdicts import SharedChecks
from a2a_server.adapters.buckets import TokenBuckets
from a2a_server.adapters.defaults import Anonymous
from a2a_server.adapters.webhook.fetching import GuardedFetcher
from a2a_server.domain.client_certificates import NamePattern
from a2a_server.domain.scope import Shares
from a2a_server.ports.authenticator import Authenticator
from a2a_server.ports.keys import KeyStore
from a2a_server.protocol.names import resource_metadata_url
from a2a_server.protocol.options import network_of
from a2a_server.serve.credentials import caller_of, credential_schemes, ended
from a2a_server.serve.parts import trust_of
from a2a_server.settings import Auth, Settings
from a2a_server.settings.credentials import CertificateCaller
from a2a_server.settings.issuers import Introspection, Issuer, TokenSource
from a2a_server.settings.proxy import TrustedProxy


async def authenticator_of(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    base: str = "",
    keys: KeyStore | None = None,
    revoked: Callable[[bytes], str] | None = None,
) -> Authenticator:
    """Make the authenticator; without credentials in the settings, all callers are the one anonymous owner.

    `base` is the URL at which clients find the HTTP door, if there is one; `keys` are those of the store; `revoked`
    says why a certificate does not count. `stack` ends what runs for the authenticator.
    """
    auth = settings.auth
    schemes = [
        *await credential_schemes(auth, keys, stack),
        *_connection_schemes(auth),
        *(_issuer_scheme(auth, issuer, stack) for issuer in auth.issuers),
        *(_introspection_scheme(auth, provider, stack) for provider in auth.introspection),
    ]
    found: Authenticator = _schemes(auth, schemes, base) if schemes else Anonymous()
    if auth.proxy.headers or revoked is not None:
        found = ConnectionCheck(found, proxy_trust(auth.proxy), revoked)
    most = settings.rates.wrong_credentials
    return GuessLimit(found, TokenBuckets(), most) if most and found.required else found


def _schemes(auth: Auth, schemes: Sequence[Scheme], base: str) -> Schemes:
    return Schemes(
        schemes,
        auth.alternatives,
        scopes={source.scheme_name: source.card_scopes for source in auth.sources},
        resource_metadata=resource_metadata_url(base) if base else "",
    )


def _connection_schemes(auth: Auth) -> Iterator[Scheme]:
    """Yield the schemes in which the connection says who calls: its certificate, or the proxy at its other end."""
    if auth.certificates:
        yield CertificateScheme(rules=[_rule(entry) for entry in auth.certificates])
    if auth.proxy.owner_header:
        yield _proxy_scheme(auth.proxy)


def proxy_trust(proxy: TrustedProxy) -> ProxyTrust:
    return ProxyTrust(
        headers=frozenset(proxy.headers),
        certificate_header=proxy.certificate_header,
        networks=[network_of(text) for text in proxy.networks],
        certificates=[NamePattern.read(text) for text in proxy.certificates],
        secret_header=proxy.secret_header,
        digest=proxy.digest,
    )


def _proxy_scheme(proxy: TrustedProxy) -> ProxyScheme:
    return ProxyScheme(
        owner_header=proxy.owner_header,
        tenant_header=proxy.tenant_header,
        scopes_header=proxy.scopes_header,
        groups_header=proxy.groups_header,
        extended_card=proxy.extended_card,
        card_scheme=proxy.card_scheme,
    )


def _rule(entry: CertificateCaller) -> CertificateRule:
    pattern = NamePattern.read(entry.name)
    return CertificateRule(pattern=pattern, caller=caller_of(entry), trust_domain=entry.trust_domain_tenant)


def _issuer_scheme(auth: Auth, issuer: Issuer, stack: AsyncExitStack) -> Scheme:
    keys = IssuerKeys(
        issuer.issuer,
        _fetcher(issuer, stack),
        jwks_url=issuer.jwks_url,
        refresh=issuer.refresh,
        cooldown=issuer.cooldown,
    )
    stack.push_async_callback(ended, asyncio.create_task(keys.run()))
    return IssuerScheme(
        name=issuer.scheme_name,
        declaration=_declaration(issuer),
        keys=keys,
        tokens=TokenRules(
            issuers=frozenset({issuer.issuer, *issuer.issuer_aliases}),
            audiences=frozenset(issuer.audiences),
            audience_claim=issuer.audience_claim,
            algorithms=frozenset(issuer.algorithms),
            types=frozenset(name.lower().removeprefix("application/") for name in issuer.types),
            leeway=issuer.leeway,
        ),
        callers=_rules(issuer, several=len(auth.sources) > 1),
    )


def _introspection_scheme(auth: Auth, source: Introspection, stack: AsyncExitStack) -> Scheme:
    scheme = IntrospectionScheme(
        name=source.scheme_name,
        declaration=_declaration(source),
        provider=Provider(
            url=source.url,
            client_id=source.client_id,
            client_secret=source.client_secret.get_secret_value(),
            in_form=source.client_authentication == "post",
            issuer=source.issuer,
            audiences=frozenset(source.audiences),
            kept=source.cache,
            kept_refused=source.cache_refused,
        ),
        callers=_rules(source, several=len(auth.sources) > 1),
        fetcher=_fetcher(source, stack),
        checks=SharedChecks(Shares(source.concurrency), "Too many unknown tokens are being checked now."),
        opaque_only=bool(auth.issuers),
    )
    stack.push_async_callback(scheme.close)
    return scheme


def _fetcher(source: TokenSource, stack: AsyncExitStack) -> GuardedFetcher:
    fetcher = GuardedFetcher(
        source.policy, trust=trust_of(source.trust), timeout=source.timeout, user_agent=f"a2ad/{__version__}"
    )
    stack.push_async_callback(fetcher.close)
    return fetcher


def _rules(source: TokenSource, *, several: bool) -> CallerRules:
    prefix = source.owner_prefix
    return CallerRules(
        owner_claim=source.owner_claim,
        owner_prefix=(f"{source.name}:" if several else "") if prefix is None else prefix,
        tenant=source.tenant,
        tenant_claim=source.tenant_claim,
        scopes=None if source.scopes is None else frozenset(source.scopes),
        scope_claims=source.scope_claims,
        required=source.required_claims,
        extended_card=source.extended_card,
    )


def _declaration(source: TokenSource) -> pb.SecurityScheme:
    """What the card says about where tokens come from."""
    issuer = source.issuer if isinstance(source, Issuer) and not source.jwks_url else ""
    connect, oauth = metadata_urls(issuer) if issuer else ("", "")
    if source.flow:
        declared = pb.OAuth2SecurityScheme(flows=_flows(source), oauth2_metadata_url=oauth)
        return pb.SecurityScheme(oauth2_security_scheme=declared)
    if connect:
        return pb.SecurityScheme(
            open_id_connect_security_scheme=pb.OpenIdConnectSecurityScheme(open_id_connect_url=connect)
        )
    form = "JWT" if isinstance(source, Issuer) else ""
    return pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Bearer", bearer_format=form))


def _flows(source: TokenSource) -> pb.OAuthFlows:
    """The flow, with those of its URLs that the settings have."""
    flows = pb.OAuthFlows()
    (name,) = [field.name for field in flows.DESCRIPTOR.fields if field.json_name == source.flow]
    flow = getattr(flows, name)
    for field in flow.DESCRIPTOR.fields:
        if field.name.endswith("_url"):
            setattr(flow, field.name, getattr(source, field.name, ""))
    flow.scopes.update(dict.fromkeys(source.card_scopes, ""))
    if name == "authorization_code":
        flow.pkce_required = True
    return flows
