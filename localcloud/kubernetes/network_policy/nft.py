"""Runs the program nft in network namespaces."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from localcloud.kubernetes.network_policy import rules
from localcloud.kubernetes.network_policy.resolve import Allow, Isolation, Ports
from localcloud.machine import network

_IN_NEW_NAMESPACE = ("unshare", "--net", "--")
_OWN, _OTHER = "192.0.2.1", "192.0.2.2"
_SAMPLE = Isolation(
    frozenset({Allow(f"{_OTHER}/32", (), Ports("TCP", 1, 2))}),
    frozenset({Allow("0.0.0.0/0", (f"{_OTHER}/32",), Ports("UDP", 1, 2))}),
)


class NftError(Exception):
    """nft rejected the rules. The message contains nft's error output."""


def apply_rules(nft: Path, namespace: str, commands: str) -> None:
    """Run the commands in one transaction in a network namespace. Do nothing if the namespace does not exist, or is
    removed or recreated in the meantime. Raises NftError.
    """
    inode = network.read_namespace_inode(namespace)
    if inode is None:
        return
    try:
        _run_nft(["nsenter", f"--net={network.build_namespace_path(namespace)}", "--", str(nft)], commands)
    except NftError:
        if network.read_namespace_inode(namespace) == inode:
            raise


def find_obstacle(nft: Path) -> str:
    """Check in a temporary network namespace that the kernel accepts our rules. Return the reason if it rejects them."""
    try:
        _run_nft([*_IN_NEW_NAMESPACE, str(nft)], rules.render_rules({_OWN: _SAMPLE}))
    except NftError as error:
        return f"nftables does not work on this machine: {error}"
    return ""


def _run_nft(command: Sequence[str], commands: str) -> None:
    done = subprocess.run([*command, "-f", "-"], input=commands, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NftError(done.stderr.strip() or f"exit code {done.returncode}")
