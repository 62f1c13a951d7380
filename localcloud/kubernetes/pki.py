"""Certificates of one cluster. One certificate authority issues all client and server certificates."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=3650)
SKEW = timedelta(minutes=5)
MASTERS = "system:masters"
"""Group that bypasses RBAC: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles"""


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, as PEM files."""

    file: Path
    key: Path


class Authority:
    """A certificate authority, created in `folder` unless the folder already contains one."""

    def __init__(self, folder: Path, common_name: str = "kubernetes") -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.certificate = Certificate(folder / "ca.crt", folder / "ca.key")
        if not self.certificate.file.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            builder = _create_builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), key)
            builder = builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            builder = builder.add_extension(_build_key_usage(authority=True), critical=True)
            _write_certificate(self.certificate, builder.sign(key, hashes.SHA256()), key)
        loaded = serialization.load_pem_private_key(self.certificate.key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)  # created above
        self._key = loaded
        self._issuer = x509.load_pem_x509_certificate(self.certificate.file.read_bytes())

    def issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        names: Sequence[str] = (),
        addresses: Sequence[IPv4Address | str] = (),
        file: str | None = None,
    ) -> Certificate:
        """Issue a certificate. Clients need a common name and organizations; servers need DNS names or IP addresses."""
        stem = file or common_name.replace(":", "-").removeprefix("system-")
        issued = Certificate(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
        builder = _create_builder(x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), key)
        builder = builder.issuer_name(self._issuer.subject)
        builder = builder.add_extension(_build_key_usage(authority=False), critical=True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if names or addresses:
            alternative_names: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
            alternative_names += [x509.IPAddress(IPv4Address(address)) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternative_names), critical=False)
        _write_certificate(issued, builder.sign(self._key, hashes.SHA256()), key)
        return issued


def make_key_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Create a key pair for signing tokens and return the files of the private key and the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    _write_private_key(private, key)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return private, public


def _create_builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _build_key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_certificate(target: Certificate, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    target.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private_key(target.key, key)


def _write_private_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
