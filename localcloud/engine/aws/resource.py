"""A resource type of the provider stand-in: which inputs it takes and how AWS makes, shows, changes and removes it.

One `Resource` per Pulumi token serves both doors, the gRPC provider and the unit tests' mocks. Handlers see plain values only:
unknowns, secrets, previews and diffs are the business of the doors.
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
"""Inputs of a resource in Pulumi's camelCase, plain values."""
State = dict[str, Any]
"""Outputs of a resource: its inputs as AWS has them, and what AWS computed."""


@dataclass(frozen=True)
class Prop:
    """One input property, and how the official provider treats it."""

    replace: bool = False
    """A new value makes a new resource (Terraform: ForceNew)."""
    unordered: bool = False
    """A list that is a set: order has no meaning."""
    json: bool = False
    """Text compared as a JSON document."""
    write_only: bool = False
    """AWS never returns it: the state keeps what was given."""
    default: Any = None
    """What the official provider assumes where nothing is given; None: whatever AWS chose."""
    fields: Mapping[str, "Prop"] | None = None
    """Properties of the object, or of each object of the list."""


@dataclass(frozen=True)
class AutoName:
    """The property that Pulumi fills from the resource's logical name plus a random suffix."""

    property: str = "name"
    max_length: int = 255
    separator: str = "-"
    prefix: str = ""
    """What AWS wants every name of the type to begin with."""
    lower: bool = False
    unless: tuple[str, ...] = ("namePrefix",)
    """Properties that, when given, keep Pulumi from naming."""


@dataclass
class Aws:
    """AWS as one provider instance sees it: an account, a region, and the engine run it works for."""

    region: str
    endpoint: str | None = field(default_factory=lambda: os.environ.get("AWS_ENDPOINT_URL"))
    poll_seconds: float = 0.05
    """First pause between two looks at a status; grows up to 40 times."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the engine is gone: every wait ends."""

    def client(self, service: str) -> Any:
        """The boto3 client of a service; thread safe, made once."""
        return clients.client(service, self.region, self.endpoint)

    @property
    def account_id(self) -> str:
        return clients.identity(self.region, self.endpoint)["Account"]

    @property
    def partition(self) -> str:
        return clients.identity(self.region, self.endpoint)["Arn"].split(":")[1]

    def wait(self, what: str, look: Callable[[], T | None], *, timeout: float) -> T:
        """Call `look` until it returns something other than None; `Failed` in `look` ends the wait with its text."""
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
    """AWS took the request but the resource did not come up: the text is what the official provider would say.

    Raised in `create` it means that nothing exists. Where something does (a node group that ended CREATE_FAILED), raise
    `Partial`.
    """


class Gone(Exception):
    """The resource no longer exists."""


class Resource(ABC):
    """One resource type. Instances have no state of their own."""

    token: ClassVar[str]
    """Pulumi's type token, e.g. `aws:ec2/vpc:Vpc`."""
    title: ClassVar[str]
    """The name that errors use, e.g. `EC2 VPC`."""
    props: ClassVar[Mapping[str, Prop]]
    """Every input that the handler consumes; any other is refused."""
    auto_name: ClassVar[AutoName | None] = None
    delete_before_replace: ClassVar[bool] = False
    """Two of a kind cannot stand side by side, so the official provider deletes the old one first, whatever its name is."""
    recomputed: ClassVar[frozenset[str]] = frozenset()
    """Outputs that a preview of an update does not know yet."""
    nested_outputs: ClassVar[frozenset[str]] = frozenset()
    """What AWS adds inside of an input's object, e.g. `vpcConfig.clusterSecurityGroupId`: unknown in a preview of a creation.

    Outputs beside the inputs need no word: a preview leaves them out, and the SDK takes what is left out for unknown.
    """

    @abstractmethod
    def create(self, aws: Aws, args: Args) -> str:
        """Make it and wait until it is usable; return the id. Must be safe to call `read` right after.

        When AWS made something and then failed, raise `Partial` with the id.
        """

    @abstractmethod
    def read(self, aws: Aws, id: str, known: State) -> State | None:
        """The state as AWS has it now (every input it can return, and the outputs); None when it is gone."""

    def recomputes(self, changed: frozenset[str]) -> frozenset[str]:
        """The `recomputed` outputs that a change of these inputs makes unknown: all, unless a handler knows better."""
        return self.recomputed

    def replacing(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Those of the changed inputs that need a new resource because of what they change from or to: none by themselves."""
        return frozenset()

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        """Bring the changed top-level properties about in place."""
        raise Failed(f"{self.token}: cannot change {', '.join(sorted(changed))} in place")

    @abstractmethod
    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Remove it and wait until it is gone. Already gone is fine."""


class Partial(Exception):
    """Created, but not to the end: the engine records the id and the failure.

    What follows is what the official provider does (Terraform's `SetId` before the wait, then the bridge's initialization error):
    the update fails, the resource is in the state with the inputs that were asked for, and the next `up` runs an update
    without any change, which asks AWS for nothing and clears the error. So a node group that ended CREATE_FAILED stays as
    it is, and an attribute that was not set stays unset until a refresh shows it. `replace_on_changes=["#initerror"]` (or
    `"*"`) in the program makes the engine replace such a resource instead, after a failed update too.
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
    """Class decorator: put the handler into `RESOURCES`."""
    RESOURCES[cls.token] = cls()
    return cls
