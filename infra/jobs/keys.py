"""Generation of a job's SSH key pair."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KeyPair:
    private: str = field(repr=False)
    """Private key in OpenSSH format."""
    public: str


def generate() -> KeyPair:
    """Generate a key pair that only the pods of one job use."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # takes 0.1 s to import
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()}\n")
