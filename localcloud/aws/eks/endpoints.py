"""API endpoint of a cluster, and the CA certificate that clients use to verify it."""

import base64
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Endpoint:
    url: str
    certificate_authority: str
    """Base64-encoded PEM, as EKS returns it."""
    issuer: str
    """OpenID Connect issuer of service account tokens."""


def make_endpoint(region: str) -> Endpoint:
    """Return an endpoint for a cluster without a realizer. The endpoint looks like one of EKS, but nothing listens on it."""
    identifier = secrets.token_hex(16).upper()
    return Endpoint(
        url=f"https://{identifier}.gr7.{region}.eks.amazonaws.com",
        certificate_authority=_create_ca_certificate(),
        issuer=f"https://oidc.eks.{region}.amazonaws.com/id/{identifier}",
    )


def _create_ca_certificate() -> str:
    """Return a valid CA certificate, so that clients can parse it. The private key is discarded."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(minutes=5))
        .not_valid_after(today + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()
