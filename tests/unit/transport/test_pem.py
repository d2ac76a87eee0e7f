"""What is wrong with a PEM file is said in words of its own, and what is right is taken (spec: SECR-06)."""

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization as forms

from a2a_server.transport.address import StartError
from a2a_server.transport.certificates import PemFile, authorities, certificates_fault, identity

CUT = slice(3, 5)
"""Lines in the middle of a file, for it to be damaged."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as operators have them, by what they are."""
    folder = tmp_path_factory.mktemp("pem")
    ca = trustme.CA()
    own, other, rsa = (ca.issue_cert("a.example", key_type=kind) for kind in (_EC, _EC, trustme.KeyType.RSA))
    cert, key = own.cert_chain_pems[0].bytes(), own.private_key_pem.bytes()
    secret = forms.load_pem_private_key(key, None)
    locked = forms.BestAvailableEncryption(b"secret")
    files = {
        "ca": ca.cert_pem.bytes(),
        "cert": cert,
        "key": key,
        "both": key + cert,
        "commented": "# Größe: klein\n".encode() + cert,
        "latin": b"# Gr\xf6\xdfe\n" + cert,
        "parameters": b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + key,
        "pkcs8": secret.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()),
        "chain": cert + ca.cert_pem.bytes(),
        "backwards": ca.cert_pem.bytes() + cert,
        "other-key": other.private_key_pem.bytes(),
        "rsa-key": rsa.private_key_pem.bytes(),
        "locked": secret.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, locked),
        "locked-old": secret.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.TraditionalOpenSSL, locked),
        "damaged-cert": without(cert, CUT),
        "damaged-key": without(key, slice(2, 3)),
        "one-of-two": ca.cert_pem.bytes() + without(cert, CUT),
        "der": secret.private_bytes(forms.Encoding.DER, forms.PrivateFormat.PKCS8, forms.NoEncryption()),
        "text": b"hello",
        "empty": b"",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


_EC = trustme.KeyType.ECDSA


def without(content: bytes, cut: slice) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[cut]
    return b"".join(lines)


@pytest.mark.parametrize(
    ("cert", "key"),
    [
        ("cert", "key"),
        ("both", "both"),
        ("chain", "pkcs8"),
        ("commented", "parameters"),
        ("latin", "key"),
    ],
)
def test_what_belongs_together_is_taken_as_it_is(folder: Path, cert: str, key: str) -> None:
    taken = identity(PemFile("cert", str(folder / cert)), PemFile("key", str(folder / key)))
    assert taken == ((folder / cert).read_bytes(), (folder / key).read_bytes())


MISFITS = [
    ("none", "key", "tls.cert: cannot read 'none': No such file or directory"),
    ("cert", "none", "tls.key: cannot read 'none': No such file or directory"),
    (".", "key", "tls.cert: cannot read '.': Is a directory"),
    ("text", "key", "tls.cert: 'text' is not a PEM file of certificates"),
    ("empty", "key", "tls.cert: 'empty' is not a PEM file of certificates"),
    ("cert", "text", "tls.key: 'text' is not a PEM file of a private key"),
    ("cert", "der", "tls.key: 'der' is not a PEM file of a private key"),
    ("key", "cert", "tls.cert: 'key' holds a private key, and tls.key = 'cert' a certificate; swap the two"),
    ("key", "key", "tls.cert: 'key' holds no certificate"),
    ("cert", "cert", "tls.key: 'cert' holds no private key"),
    ("damaged-cert", "key", "tls.cert: 'damaged-cert' holds a certificate that is damaged"),
    ("cert", "damaged-key", "tls.key: 'damaged-key' holds a private key that is damaged"),
    ("cert", "locked", "tls.key: 'locked' is encrypted; give it without a passphrase"),
    ("cert", "locked-old", "tls.key: 'locked-old' is encrypted; give it without a passphrase"),
    ("cert", "other-key", "tls.key: 'other-key' is not the key of the certificate in tls.cert = 'cert'"),
    ("cert", "rsa-key", "tls.key: 'rsa-key' is not the key of the certificate in tls.cert = 'cert'"),
    (
        "backwards",
        "key",
        "tls.key: 'key' is not the key of the certificate in tls.cert = 'backwards', which must come first in its file",
    ),
]


@pytest.mark.parametrize(("cert", "key", "message"), MISFITS, ids=[f"{cert} {key}" for cert, key, _ in MISFITS])
def test_every_misfit_has_words_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cert: str, key: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(StartError) as refused:
        identity(PemFile("tls.cert", cert), PemFile("tls.key", key))
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["ca", "both", "chain", "commented", "latin"])
def test_authorities_are_taken_as_they_are(folder: Path, name: str) -> None:
    assert authorities(PemFile("ca", str(folder / name))) == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("text", "is not a PEM file of certificates"),
        ("key", "holds no certificate"),
        ("damaged-cert", "holds a certificate that is damaged"),
        ("one-of-two", "holds a certificate that is damaged"),
    ],
)
def test_a_fault_of_authorities_is_said_and_the_file_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    monkeypatch.chdir(folder)
    assert certificates_fault((folder / name).read_bytes()) == fault
    with pytest.raises(StartError) as refused:
        authorities(PemFile("upstream.ca", name))
    assert str(refused.value) == f"upstream.ca: {name!r} {fault}"
