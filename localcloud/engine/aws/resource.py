"""Resource types of the provider emulator: the inputs they accept, and how to create, read, update and delete them.

One `Resource` per Pulumi token serves both entry points, the gRPC provider and the unit tests' mocks. Handlers see only
plain values: the entry points handle unknowns, secrets, previews and diffs.
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
"""Outputs of a resource: its inputs as AWS reports them, and values that AWS computed."""


@dataclass(frozen=True)
class Prop:
    """An input property, and how the official provider treats it."""

    replace: bool = False
    """Changing the value replaces the resource (Terraform: ForceNew)."""
    unordered: bool = False
    """The list is a set: order has no meaning."""
    json: bool = False
    """Text compared as a JSON document."""
    write_only: bool = False
    """AWS never returns it: the state keeps the input."""
    default: Any = None
    """The official provider's default; None means AWS chooses."""
    fields: Mapping[str, "Prop"] | None = None
    """Properties of the object, or of each object in the list."""


@dataclass(frozen=True)
class AutoName:
    """The property that Pulumi fills from the resource's logical name plus a random suffix."""

    property: str = "name"
    max_length: int = 255
    separator: str = "-"
    prefix: str = ""
    """Prefix that AWS requires in every name of the type."""
    lower: bool = False
    unless: tuple[str, ...] = ("namePrefix",)
    """Properties that disable automatic naming when set."""


@dataclass
class Aws:
    """AWS as one provider instance sees it: an account, a region, and the Pulumi operation it serves."""

    region: str
    endpoint: str | None = field(default_factory=lambda: os.environ.get("AWS_ENDPOINT_URL"))
    poll_seconds: float = 0.05
    """First pause between two polls of a status; grows up to 40 times."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the engine is gone, which ends every wait."""

    def client(self, service: str) -> Any:
        """Return the boto3 client of a service; thread-safe, created once."""
        return clients.client(service, self.region, self.endpoint)

    @property
    def account_id(self) -> str:
        return clients.identity(self.region, self.endpoint)["Account"]

    @property
    def partition(self) -> str:
        return clients.identity(self.region, self.endpoint)["Arn"].split(":")[1]

    def wait(self, what: str, look: Callable[[], T | None], *, timeout: float) -> T:
        """Call `look` until it returns a value other than None. If `look` raises `Failed`, the wait ends with it."""
        deadline = time.monotonic() + timeout
        pause = self.poll_seconds
        while (seen := look()) is None:
            if time.monotonic() >= deadline:
                raise Failed(f"waiting for {what}: timeout while waiting ({timeout:g} s)")
            if self.cancelled.wait(pause):
                raise Failed(f"waiting for {what}: cancelled")
            pause = min(pause * PAUSE_GROWTH, self.poll_seconds * PAUSE_LIMIT)
        return seen


class Failed(Exception):
    """AWS accepted the request, but the resource did not come up. The text is the official provider's message.

    Raised in `create`, it means that nothing exists. If something does exist (a node group in CREATE_FAILED), raise
    `Partial`.
    """


class Gone(Exception):
    """The resource no longer exists."""


class Resource(ABC):
    """A resource type. Instances are stateless."""

    token: ClassVar[str]
    """Pulumi's type token, e.g. `aws:ec2/vpc:Vpc`."""
    title: ClassVar[str]
    """The name used in errors, e.g. `EC2 VPC`."""
    props: ClassVar[Mapping[str, Prop]]
    """Every input that the handler supports; any other is refused."""
    auto_name: ClassVar[AutoName | None] = None
    delete_before_replace: ClassVar[bool] = False
    """Old and new resource cannot coexist, so the official provider deletes the old one first, whatever its name."""
    recomputed: ClassVar[frozenset[str]] = frozenset()
    """Outputs that are unknown in the preview of an update."""
    nested_outputs: ClassVar[frozenset[str]] = frozenset()
    """Outputs inside an input object, e.g. `vpcConfig.clusterSecurityGroupId`: unknown in the preview of a creation.

    Top-level outputs need not be listed: a preview omits them, and the SDK treats omitted outputs as unknown.
    """

    @abstractmethod
    def create(self, aws: Aws, args: Args) -> str:
        """Create the resource, wait until it is usable, and return its id. An immediate `read` must be safe.

        If AWS created something and then failed, raise `Partial` with the id.
        """

    @abstractmethod
    def read(self, aws: Aws, id: str, known: State) -> State | None:
        """Return the current state in AWS (all inputs that it returns, and the outputs), or None if it is gone."""

    def recomputes(self, changed: frozenset[str]) -> frozenset[str]:
        """Return the `recomputed` outputs that changing these inputs makes unknown: all of them unless overridden."""
        return self.recomputed

    def replacing(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Return the changed inputs whose old or new value requires a replacement: none unless overridden."""
        return frozenset()

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        """Apply the changed top-level properties in place."""
        raise Failed(f"{self.token}: cannot change {', '.join(sorted(changed))} in place")

    @abstractmethod
    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Delete the resource and wait until it is gone. A resource that is already gone is not an error."""


class Partial(Exception):
    """The resource was created, but not completely: the engine records the id and the failure.

    The consequences match the official provider (Terraform's `SetId` before the wait, then the bridge's initialization
    error): the update fails, the state contains the resource with the requested inputs, and the next `up` runs an
    update without changes, which sends nothing to AWS and clears the error. So a node group in CREATE_FAILED stays as
    it is, and an attribute that was not set stays unset until a refresh detects it. `replace_on_changes=["#initerror"]`
    (or `"*"`) in the program makes the engine replace such a resource instead, after a failed update too.
    https://github.com/pulumi/pulumi-terraform-bridge/blob/main/pkg/tfbridge/provider.go (Create, Update)
    https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go
    https://github.com/pulumi/pulumi/pull/7226
    """

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.reason = reason


RESOURCES: dict[str, Resource] = {}
"""All handlers by token, filled by `register`."""


def register(cls: type[Resource]) -> type[Resource]:
    """Class decorator: add the handler to `RESOURCES`."""
    RESOURCES[cls.token] = cls()
    return cls
