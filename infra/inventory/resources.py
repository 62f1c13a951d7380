"""List the AWS resources of a stack, by running the program that creates them against a recording resource monitor.

There is no engine, no provider and no network: the monitor answers each registration with the resource's inputs and a
few plausible outputs.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock, Thread
from types import SimpleNamespace
from typing import Any, Final

from infra.facts.model import Facts
from infra.naming import PROJECT
from infra.settings.stack import Settings

AWS: Final = "aws:"


@dataclass(frozen=True)
class Resource:
    """A resource as the program registers it."""

    type: str
    name: str
    id: str
    inputs: Mapping[str, Any]
    parents: tuple[str, ...]
    """Types of the resource's ancestors, from the outermost to the parent."""


@dataclass(frozen=True)
class Inventory:
    """The AWS resources of a stack, without those inside Kubernetes."""

    resources: tuple[Resource, ...]

    def list_by_type(self, token: str) -> tuple[Resource, ...]:
        return tuple(resource for resource in self.resources if resource.type == token)

    def find_by_id(self, token: str, resource_id: str) -> Resource:
        return next(resource for resource in self.list_by_type(token) if resource.id == resource_id)

    @property
    def types(self) -> frozenset[str]:
        return frozenset(resource.type for resource in self.resources)


_LOCK: Final = Lock()
_last: tuple[Settings, Facts, Inventory] | None = None
"""Last result of `list_resources`, with the objects for which it was computed."""


def list_resources(settings: Settings, facts: Facts) -> Inventory:
    """Return what `pulumi up` would register in AWS. Raises LookupError if the program fails because of a setting or fact
    that a rule reports. The bill and the checks of `plan` share one result."""
    global _last
    with _LOCK:
        if _last is None or _last[0] is not settings or _last[1] is not facts:
            _last = settings, facts, _list_registered_resources(settings, facts)
        return _last[2]


def _list_registered_resources(settings: Settings, facts: Facts) -> Inventory:
    from infra.clusters import ec2, eks  # imported here because Pulumi's AWS SDK takes a second to load

    def build_stack() -> None:
        if settings.is_eks:
            eks.build(settings, facts, check=None)
        else:
            ec2.build(settings, facts)

    return Inventory(tuple(_record_resources(settings.stack, build_stack)))


def compute_outputs(token: str, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs that AWS computes and the program uses."""
    computed: dict[str, Any] = {"arn": f"arn:aws:mock:us-west-2:123456789012:{name}"}
    match token:
        case "aws:eks/cluster:Cluster":
            computed |= {"endpoint": "https://mock.eks.amazonaws.com", "certificateAuthority": {"data": "Y2E="}}
            computed |= {"vpcConfig": {**inputs["vpcConfig"], "clusterSecurityGroupId": "sg-cluster"}}
        case "aws:eks/nodeGroup:NodeGroup":
            computed |= {"resources": [{"autoscalingGroups": [{"name": f"eks-{name}"}]}], "nodeGroupName": name}
        case "aws:ec2/launchTemplate:LaunchTemplate":
            computed |= {"latestVersion": 1}
        case "aws:ec2/instance:Instance":
            computed |= {"privateIp": "10.0.0.5", "primaryNetworkInterfaceId": "eni-mock"}
        case "aws:iam/role:Role":
            computed |= {"uniqueId": f"AROA{name}"}
        case "aws:ec2/eip:Eip":
            computed |= {"publicIp": "198.51.100.7"}
        case "aws:fsx/lustreFileSystem:LustreFileSystem":
            computed |= {"dnsName": f"{name}.fsx.us-west-2.amazonaws.com", "mountName": "abcdefgh"}
        case "aws:kms/key:Key":
            computed |= {"keyId": name}
        case "aws:ec2/vpcEndpoint:VpcEndpoint":
            computed |= {"prefixListId": "pl-mock"}
    return {"name": name, "bucket": name, **inputs, **computed}


def _record_resources(stack: str, build: Callable[[], object]) -> list[Resource]:
    """Run `build` and return what it registers. The recording may run while `pulumi up` runs.

    Pulumi keeps its connection to the engine, the root resource and the pending registrations in context variables.
    Therefore the program runs in a copy of the context, with an event loop in a separate thread.
    """
    resources: list[Resource] = []
    errors: list[BaseException] = []

    def run_in_thread() -> None:
        try:
            asyncio.run(_run_with_recorder(stack, build, resources))
        except BaseException as error:
            errors.append(error)

    # In an empty context, Pulumi's setters would also change the default of all other contexts.
    thread = Thread(target=copy_context().run, args=(run_in_thread,), name="inventory")
    thread.start()
    thread.join()
    for error in errors:
        if isinstance(error, ValueError):
            raise LookupError(str(error)) from error
        raise error
    return resources


async def _run_with_recorder(stack: str, build: Callable[[], object], resources: list[Resource]) -> None:
    from pulumi.runtime import Settings as Runtime
    from pulumi.runtime import rpc
    from pulumi.runtime.mocks import MockEngine
    from pulumi.runtime.settings import ROOT
    from pulumi.runtime.stack import Stack, wait_for_rpcs

    monitor = _Monitor()
    ROOT.set(None)
    Runtime(project=PROJECT, stack=stack, monitor=monitor, engine=MockEngine(None))  # sets context variables
    Stack(lambda: None)
    build()
    await wait_for_rpcs()
    for request in monitor.requests:
        if request.type.startswith(AWS):
            parents = tuple(request.parent.split("::")[2].split("$"))
            inputs = rpc.deserialize_properties(request.object)
            resources.append(Resource(request.type, request.name, _build_id(request), inputs, parents))


class _Monitor:
    """Records registrations. Pulumi calls the monitor in threads that have no context, so it must not use Pulumi's runtime."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def RegisterResource(self, request: Any) -> Any:
        from pulumi.runtime.proto.resource_pb2 import RegisterResourceResponse

        self.requests.append(request)
        parents = request.parent.split("::")[2] + "$" if request.parent else ""
        response = RegisterResourceResponse(urn=f"urn:pulumi:{PROJECT}::{PROJECT}::{parents}{request.type}::{request.name}")
        if request.custom:
            response.id = _build_id(request)
            response.object.update(compute_outputs(request.type, request.name, request.object))
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:
        from google.protobuf.empty_pb2 import Empty

        return Empty()

    def SupportsFeature(self, request: Any) -> Any:
        """The monitor supports the same features as `pulumi.runtime.mocks`."""
        return SimpleNamespace(hasSupport=request.id != "outputValues")


def _build_id(request: Any) -> str:
    return f"{request.name}-id"
