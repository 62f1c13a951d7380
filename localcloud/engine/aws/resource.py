"""Resource types of the provider emulator, with their inputs and their create, read, update and delete operations.

Each Pulumi type token has one `Resource`, which both entry points use: the gRPC provider and the mocks in unit tests.
Handlers receive only plain values: the entry points handle unknowns, secrets, previews and diffs.
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from localcloud.engine.aws import clients

T = TypeVar("T")
PAUSE_GROWTH = 1.5
PAUSE_LIMIT = 40

Args = dict[str, Any]
"""Inputs of a resource as plain values, in Pulumi's camelCase."""
State = dict[str, Any]
"""Outputs of a resource: its inputs as reported by AWS, and values computed by AWS."""


@dataclass(frozen=True)
class Prop:
    """Schema of an input property, taken from the official provider."""

    replace: bool = False
    """Changing the value replaces the resource (Terraform: ForceNew)."""
    unordered: bool = False
    """The list is a set: the order of its elements is ignored."""
    json: bool = False
    """The value is a JSON document: whitespace and key order are ignored."""
    write_only: bool = False
    """AWS never returns this property, so the state keeps the input."""
    default: Any = None
    """The official provider's default. None if AWS chooses the default."""
    fields: Mapping[str, "Prop"] | None = None
    """Properties of the object, or of each object in the list."""


@dataclass(frozen=True)
class AutoName:
    """Auto-naming rule: the property whose value is generated from the resource's logical name and a random suffix."""

    property: str = "name"
    max_length: int = 255
    separator: str = "-"
    prefix: str = ""
    """Prefix that AWS requires in all names of this resource type."""
    lower: bool = False
    unless: tuple[str, ...] = ("namePrefix",)
    """Properties that disable auto-naming when set."""


@dataclass
class Aws:
    """AWS access for one provider instance: region, endpoint and cancellation."""

    region: str
    endpoint: str | None = field(default_factory=lambda: os.environ.get("AWS_ENDPOINT_URL"))
    poll_seconds: float = 0.05
    """Initial polling interval. The interval grows to at most 40 times this value."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the engine disconnects. Setting it ends all waits."""

    def client(self, service: str) -> Any:
        """Return the cached boto3 client of a service. Thread-safe."""
        return clients.get_client(service, self.region, self.endpoint)

    @property
    def account_id(self) -> str:
        return clients.get_caller_identity(self.region, self.endpoint)["Account"]

    @property
    def partition(self) -> str:
        return clients.get_caller_identity(self.region, self.endpoint)["Arn"].split(":")[1]

    def wait(self, what: str, look: Callable[[], T | None], *, timeout: float) -> T:
        """Poll `look` until it returns a value other than None. Exceptions from `look` end the wait."""
        deadline = time.monotonic() + timeout
        pause = self.poll_seconds
        while (result := look()) is None:
            if time.monotonic() >= deadline:
                raise Failed(f"waiting for {what}: timeout while waiting ({timeout:g} s)")
            if self.cancelled.wait(pause):
                raise Failed(f"waiting for {what}: cancelled")
            pause = min(pause * PAUSE_GROWTH, self.poll_seconds * PAUSE_LIMIT)
        return result


class Failed(Exception):
    """AWS accepted the request, but the resource failed to become ready. The message is worded as in the official
    provider.

    `create` raises this exception only if no resource exists. If the resource exists, such as a node group in
    CREATE_FAILED, `create` raises `Partial`.
    """


class Gone(Exception):
    """The resource no longer exists."""


class Resource(ABC):
    """A resource type. Instances are stateless."""

    token: ClassVar[str]
    """Pulumi's type token, e.g. `aws:ec2/vpc:Vpc`."""
    title: ClassVar[str]
    """Resource type in error messages, such as `EC2 VPC`."""
    props: ClassVar[Mapping[str, Prop]]
    """All supported inputs. The provider rejects any other input."""
    auto_name: ClassVar[AutoName | None] = None
    delete_before_replace: ClassVar[bool] = False
    """The old and the new resource cannot coexist, even under different names, so the official provider deletes the old
    resource first."""
    recomputed: ClassVar[frozenset[str]] = frozenset()
    """Outputs that are unknown in the preview of an update."""
    nested_outputs: ClassVar[frozenset[str]] = frozenset()
    """Outputs inside an input object that are unknown in the preview of a creation, e.g.
    `vpcConfig.clusterSecurityGroupId`.

    Top-level outputs need not be listed: a preview omits them, and the SDK treats omitted outputs as unknown.
    """

    @abstractmethod
    def create(self, aws: Aws, args: Args) -> str:
        """Create the resource, wait until it is ready, and return its id. `read` must work immediately afterward.

        If an error occurs after AWS has created the resource, raise `Partial` with the id.
        """

    @abstractmethod
    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        """Return the resource's current inputs and outputs in AWS, or None if it no longer exists."""

    def find_recomputed_outputs(self, changed: frozenset[str]) -> frozenset[str]:
        """Return the outputs that become unknown when these inputs change. Default: all `recomputed` outputs."""
        return self.recomputed

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Return the changed inputs that require a replacement because of their old or new values. Default: none."""
        return frozenset()

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        """Apply the changed top-level properties in place."""
        raise Failed(f"{self.token}: cannot change {', '.join(sorted(changed))} in place")

    @abstractmethod
    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Delete the resource and wait until it is gone. A resource that is already gone is not an error."""


class Partial(Exception):
    """The resource was created but not fully configured. The engine records the resource's id and the failure.

    The behavior matches the official provider (Terraform's `SetId` before the wait, then the bridge's initialization error).
    The update fails, and the state contains the resource with the requested inputs. The next `up` runs an update without
    changes. This update sends no request to AWS and clears the error. Therefore a node group in CREATE_FAILED stays in that
    state, and a missing attribute stays unset until a refresh detects it. With `replace_on_changes=["#initerror"]` (or
    `"*"`), the engine replaces such a resource instead, even after a failed update.
    https://github.com/pulumi/pulumi-terraform-bridge/blob/main/pkg/tfbridge/provider.go (Create, Update)
    https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go
    https://github.com/pulumi/pulumi/pull/7226
    """

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.reason = reason


RESOURCES: dict[str, Resource] = {}
"""Maps a type token to its handler; `register` fills this mapping."""


def register(cls: type[Resource]) -> type[Resource]:
    """Class decorator that adds the handler to `RESOURCES`."""
    RESOURCES[cls.token] = cls()
    return cls
