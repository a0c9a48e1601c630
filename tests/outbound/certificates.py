"""TLS test servers, and a company's authority that signs certificates."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

type Signed = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]
DAY = datetime.timedelta(days=1)
USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def tls(folder: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS contexts of a server with these names and of a client that trusts it. The server's `asked` lists requested
    names.
    """
    built = certificate(*names)
    theirs = serving(folder, built)
    theirs.asked = []  # type: ignore[attr-defined]
    theirs.set_servername_callback(lambda _, name, context: theirs.asked.append(name))  # type: ignore[attr-defined]
    return theirs, ssl.create_default_context(cadata=pem(built[0]).decode())


def serving(folder: Path, signed: Signed) -> ssl.SSLContext:
    """A server's context; `pem` in the folder has certificate and key."""
    private = signed[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "pem").write_bytes(pem(signed[0]) + private)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(folder / "pem")
    return theirs


def pem(one: x509.Certificate) -> bytes:
    return one.public_bytes(serialization.Encoding.PEM)


def certificate(
    *names: str, by: Signed | None = None, since: int = 1, days: int = 1, is_strict: bool = False
) -> Signed:
    """One for these names, by an authority or by itself; begun days ago, and with so many left.

    `is_strict`: with the extensions that RFC 5280 wants, which many companies leave out.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test" if by else "test authority")])
    issuer, signing_key = (by[0].subject, by[1]) if by else (subject, key)
    now = datetime.datetime.now(datetime.UTC)
    listed = [x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names]
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - since * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if listed:
        built = built.add_extension(x509.SubjectAlternativeName(listed), critical=False)
    if is_strict:
        usage = dict.fromkeys(USES, False) | {"digital_signature": True, "key_cert_sign": by is None}
        of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        built = (
            built.add_extension(x509.KeyUsage(**usage), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(of_issuer, critical=False)
        )
    return built.sign(signing_key, hashes.SHA256()), key
