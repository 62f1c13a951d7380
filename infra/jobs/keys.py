"""A fresh SSH key pair for one job."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KeyPair:
    private: str = field(repr=False)
    """In OpenSSH's form."""
    public: str


def fresh() -> KeyPair:
    """A key that nothing but the job's pods ever sees."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # 0.1 s that no other verb needs
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()}\n")
