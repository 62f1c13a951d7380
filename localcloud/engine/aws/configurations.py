"""Provider configurations, keyed by connection. All Pulumi operations share one emulator process, and requests do not
identify their provider instance.

Each provider instance of a Pulumi operation has its own connection, so the peer address identifies the instance. If the
engine reconnects from another address, the stack in the resource's URN identifies the configuration. This fallback
fails if the stack has providers in several regions.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.engine.aws.resource import Aws

REMEMBERED = 512
"""Maximum number of connections, and of stacks, to remember; the oldest are dropped. A Pulumi operation opens two or
three connections."""

# Settings that Pulumi and its SDK always send. The emulator ignores them.
WITHOUT_EFFECT = frozenset(
    {"version", "pluginDownloadURL", "skipCredentialsValidation", "skipMetadataApiCheck", "skipRegionValidation"}
)


class NotConfigured(Exception):
    """A request arrived before the provider was configured."""


@dataclass(frozen=True)
class Stack:
    """Identity of a Pulumi stack: its name and project."""

    stack: str
    project: str

    @classmethod
    def from_urn(cls, urn: str) -> "Stack":
        parts = urn.split("::")
        return cls(parts[0].removeprefix("urn:pulumi:"), parts[1] if len(parts) > 1 else "")


def find_unsupported_settings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the unsupported settings of a provider configuration as (property, reason) pairs."""
    refusals = [
        (name, f"the local provider does not support the provider setting {name}; it accepts only region")
        for name in sorted(config)
        if name != "region" and name not in WITHOUT_EFFECT and not name.startswith("__")
    ]
    if not config.get("region"):
        refusals.append(("region", "Missing region configuration. Set it with `pulumi config set aws:region <region>`"))
    return refusals


@dataclass
class Configurations:
    """Provider configurations of all running Pulumi operations."""

    _by_peer: OrderedDict[str, Aws] = field(default_factory=OrderedDict)
    _by_stack: OrderedDict[Stack, dict[str, Aws]] = field(default_factory=OrderedDict)
    """Stack -> provider URN -> configuration."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self, peer: str) -> None:
        """Forget the configuration of an earlier connection from this address."""
        with self._lock:
            self._by_peer.pop(peer, None)

    def remember(self, peer: str, provider_urn: str, aws: Aws) -> None:
        stack = Stack.from_urn(provider_urn)
        with self._lock:
            self._by_peer[peer] = aws
            self._by_stack.setdefault(stack, {})[provider_urn] = aws
            self._by_peer.move_to_end(peer)
            self._by_stack.move_to_end(stack)
            while len(self._by_peer) > REMEMBERED:
                self._by_peer.popitem(last=False)
            while len(self._by_stack) > REMEMBERED:
                self._by_stack.popitem(last=False)

    def find(self, peer: str, urn: str) -> Aws:
        with self._lock:
            aws = self._by_peer.get(peer)
            candidates = list(self._by_stack.get(Stack.from_urn(urn), {}).values())
        if aws is not None:
            return aws
        if len({candidate.region for candidate in candidates}) != 1:
            raise NotConfigured("the local provider has no configuration for this Pulumi operation; was it restarted?")
        return candidates[-1]
