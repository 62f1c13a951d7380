"""Run the program under Pulumi's mocks and record every resource as the engine would see it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.mocks import test as under_mocks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.rpc import deserialize_properties

from infra import program
from infra.facts.model import Facts
from infra.inventory.resources import compute_outputs
from infra.settings.stack import Settings

STACK = "pulumi:pulumi:Stack"
VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
INTERNET_GATEWAY = "aws:ec2/internetGateway:InternetGateway"
NAT_GATEWAY = "aws:ec2/natGateway:NatGateway"
ROUTE = "aws:ec2/route:Route"
VPC_ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
FLOW_LOG = "aws:ec2/flowLog:FlowLog"
DEFAULT_SECURITY_GROUP = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS_RULE = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ROLE_POLICY_ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
KEY = "aws:kms/key:Key"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
FILE_SYSTEM_POLICY = "aws:efs/fileSystemPolicy:FileSystemPolicy"
BACKUP_POLICY = "aws:efs/backupPolicy:BackupPolicy"
MOUNT_TARGET = "aws:efs/mountTarget:MountTarget"
ACCESS_POINT = "aws:efs/accessPoint:AccessPoint"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
DATA_REPOSITORY = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
IMAGE_REPOSITORY = "aws:ecr/repository:Repository"
IMAGE_EXPIRY = "aws:ecr/lifecyclePolicy:LifecyclePolicy"
BUCKET = "aws:s3/bucket:Bucket"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
BUCKET_LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
BUCKET_ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
BUCKET_OWNERSHIP = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
PUBLIC_ACCESS_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
ACCESS_POLICY = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
POD_IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
GROUP_TAG = "aws:autoscaling/tag:Tag"
GROUP = "aws:autoscaling/group:Group"
INSTANCE = "aws:ec2/instance:Instance"
INSTANCE_PROFILE = "aws:iam/instanceProfile:InstanceProfile"
EIP = "aws:ec2/eip:Eip"


@dataclass(frozen=True)
class Resource:
    """One resource as the program registered it."""

    urn: str
    id: str
    type: str
    name: str
    inputs: Mapping[str, Any]
    state: Mapping[str, Any]
    parents: tuple[str, ...]
    """Types of the resource's ancestors, from the outermost to the parent."""
    dependencies: frozenset[str]
    """URNs of the resources on which the resource depends."""
    ignored_changes: tuple[str, ...]
    protected: bool
    delete_before_replace: bool
    custom: bool
    provider: str = ""
    """URN and ID of the resource's provider; empty for the default provider."""
    has_replacement_trigger: bool = False
    replacement_trigger: str = ""
    """Value of the replacement trigger, if it is a known string."""


@dataclass
class Deployment:
    """Resources and outputs of one run of the program."""

    resources: list[Resource] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    secret_outputs: frozenset[str] = frozenset()

    def find_resources(self, token: str, *name_parts: str) -> list[Resource]:
        """Return the resources of a type whose names contain all the parts."""
        return [item for item in self.resources if item.type == token and all(part in item.name for part in name_parts)]

    def find_resource(self, token: str, *name_parts: str) -> Resource:
        matching = self.find_resources(token, *name_parts)
        assert len(matching) == 1, f"{token} {name_parts}: {[resource.name for resource in matching]}"
        return matching[0]

    def find_by_name(self, name: str) -> list[Resource]:
        return [resource for resource in self.resources if resource.name == name]

    def list_dependencies(self, resource: Resource) -> list[Resource]:
        """Return the resource's direct and indirect dependencies."""
        by_urn = {resource.urn: resource for resource in self.resources}
        dependencies: dict[str, Resource] = {}
        todo = list(resource.dependencies)
        while todo:
            urn = todo.pop()
            if urn in by_urn and urn not in dependencies:
                dependencies[urn] = by_urn[urn]
                todo += by_urn[urn].dependencies
        return list(dependencies.values())

    def list_dependency_names(self, resource: Resource) -> set[str]:
        return {resource.name for resource in self.list_dependencies(resource)}


class RecordingMonitor(MockMonitor):
    """Record each registered resource with its options, parents and dependencies."""

    def __init__(self, mocks: Mocks, deployment: Deployment) -> None:
        super().__init__(mocks)
        self._deployment = deployment

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> resource_pb2.RegisterResourceResponse:
        response: resource_pb2.RegisterResourceResponse = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type == STACK:
            return response
        parent_types = request.parent.split("::")[2].split("$") if request.parent else []
        self._deployment.resources.append(
            Resource(
                urn=response.urn,
                id=response.id,
                type=request.type,
                name=request.name,
                inputs=deserialize_properties(request.object),
                state=self.resources[response.urn].state,
                parents=tuple(parent_types),
                dependencies=frozenset(request.dependencies),
                ignored_changes=tuple(request.ignoreChanges),
                protected=request.protect,
                delete_before_replace=request.deleteBeforeReplace,
                custom=request.custom,
                provider=request.provider,
                has_replacement_trigger=request.HasField("replacement_trigger"),
                replacement_trigger=request.replacement_trigger.string_value,
            )
        )
        return response


class Defaults(Mocks):
    """Mocks that return a resource's inputs, plus the few outputs computed by AWS that the program uses."""

    def call(self, args: Any) -> Any:
        raise AssertionError(f"the program looks up {args.token}; move the lookup to infra.facts")

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"{args.name}-id" if args.custom else None, compute_outputs(args.typ, args.name, args.inputs)


def deploy(settings: Settings, facts: Facts, mocks: Mocks | None = None) -> Deployment:
    """Run the program to completion for one AWS stack, and return what it registered."""
    return record_deployment(settings.stack, lambda: program.build_aws_cluster(settings, facts), mocks)


def record_deployment(stack: str, build: Callable[[], Mapping[str, object]], mocks: Mocks | None = None) -> Deployment:
    """Run a function that builds a stack, wait until it completes, and return what it registered."""
    deployment = Deployment()
    mocks = mocks or Defaults()
    set_mocks(mocks, project="gpumpi", stack=stack, monitor=RecordingMonitor(mocks, deployment))

    @under_mocks  # type: ignore[untyped-decorator]
    def run() -> pulumi.Output[None]:
        outputs = build()

        def record_outputs(values: Mapping[str, Any]) -> None:
            deployment.outputs = dict(values)

        def record_secret_names(names: frozenset[str]) -> None:
            deployment.secret_outputs = names

        pulumi.Output.from_input(_find_secret_names(outputs)).apply(record_secret_names)  # type: ignore[arg-type]
        return pulumi.Output.from_input(dict(outputs)).apply(record_outputs)

    run()
    return deployment


async def _find_secret_names(outputs: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({name for name, value in outputs.items() if await pulumi.Output.from_input(value).is_secret()})
