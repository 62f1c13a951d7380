"""Generates an SSH key pair for a job."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KeyPair:
    private: str = field(repr=False)
    """In OpenSSH format."""
    public: str


def generate() -> KeyPair:
    """Generate a key pair. Only the job's pods ever use it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # takes 0.1 s, and no other verb needs it
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()}\n")
