"""EC2 cluster without Kubernetes: a head node and an Auto Scaling group of workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.boot import ec2_node
from infra.boot.ec2_node import ClusterInfo, Mount
from infra.boot.eks_node import encoded
from infra.components import iam
from infra.components.ec2_head_node import Ec2HeadNode, Ec2HeadNodeArgs
from infra.components.ec2_workers import Ec2Workers, Ec2WorkersArgs
from infra.components.file_system import FileSystem
from infra.components.iam import Account
from infra.components.instance_role import InstanceRole, InstanceRoleArgs
from infra.naming import COMPONENT, HEAD_NODE, WORKER, Naming
from infra.plan.specs import HeadNodeSpec, WorkersSpec


@dataclass(frozen=True)
class Ec2ClusterArgs:
    naming: Naming
    account: Account
    head_node: HeadNodeSpec
    workers: WorkersSpec
    # ranks
    head_node_slots: int
    """0 if the head node only launches jobs."""
    head_node_idle_slots: int
    """Number of slots on the head node while the cluster has no workers."""
    worker_slots: int
    # login
    user: str
    public_keys: Sequence[str]
    # resources that the nodes use
    key_bucket: pulumi.Input[str]
    key_bucket_arn: pulumi.Input[str]
    file_systems: Sequence[FileSystem]
    vpc_id: pulumi.Input[str]
    security_group_id: pulumi.Input[str]
    head_node_subnet_id: pulumi.Input[str]
    worker_subnet_ids: Sequence[pulumi.Input[str]]
    placement_group: pulumi.Input[str] | None
    head_node_in_placement_group: bool
    after: Sequence[pulumi.Resource] = ()
    """Resources that a node needs to boot: routes, endpoints, mount targets."""


class Ec2Cluster(pulumi.ComponentResource):
    """Creates:
    - a role for the head node and one for the workers; only workers may complete their group's lifecycle action
    - the head node and the workers' Auto Scaling group, with user data that describes the cluster
    """

    def __init__(self, name: str, args: Ec2ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Ec2Cluster", name, None, opts)
        self._args = args
        child = pulumi.ResourceOptions(parent=self)
        naming = args.naming
        join = iam.to_json(iam.complete_join(args.account, naming.workers))
        self._head_node_role = self._create_role(HEAD_NODE, {}, child)
        self._worker_role = self._create_role(WORKER, {"join": join}, child)
        self._head_node = Ec2HeadNode(
            naming.name(HEAD_NODE),
            Ec2HeadNodeArgs(
                naming,
                args.head_node,
                profile_arn=self._head_node_role.profile_arn,
                vpc_id=args.vpc_id,
                security_group_id=args.security_group_id,
                subnet_id=args.head_node_subnet_id,
                user_data=self._user_data(HEAD_NODE, slots=args.head_node_slots, idle_slots=args.head_node_idle_slots),
                placement_group=args.placement_group if args.head_node_in_placement_group else None,
                after=[*args.after, *self._head_node_role.permissions],
            ),
            child,
        )
        self._workers = Ec2Workers(
            naming.workers,
            Ec2WorkersArgs(
                naming,
                args.workers,
                profile_arn=self._worker_role.profile_arn,
                security_group_id=args.security_group_id,
                subnet_ids=args.worker_subnet_ids,
                user_data=self._user_data(WORKER, slots=args.worker_slots, idle_slots=0),
                placement_group=args.placement_group,
                after=[*args.after, *self._worker_role.permissions],
            ),
            child,
        )
        self.register_outputs({"masterId": self.head_node.instance_id, "autoScalingGroup": self.workers.group_name})

    def _create_role(self, role: str, more: Mapping[str, pulumi.Input[str]], child: pulumi.ResourceOptions) -> InstanceRole:
        args, account = self._args, self._args.account
        keys = pulumi.Output.from_input(args.key_bucket_arn)
        permissions: dict[str, pulumi.Input[str]] = {
            "keys": keys.apply(lambda arn: iam.to_json(iam.exchange_node_keys(arn))),
            "members": iam.to_json(iam.find_members()),
            **more,
        }
        for file_system in args.file_systems:
            permissions |= file_system.mount_policies
        return InstanceRole(
            args.naming.name(f"{role}-role"),
            InstanceRoleArgs(args.naming, account, f"{role.capitalize()} of {args.naming.cluster}", permissions),
            child,
        )

    def _user_data(self, role: ec2_node.NodeRole, *, slots: int, idle_slots: int) -> pulumi.Output[str]:
        args, mounts = self._args, [each.mount for each in self._args.file_systems]
        lines = [mount.fstab for mount in mounts]
        values = pulumi.Output.all(args.key_bucket, self._head_node_role.unique_id, self._worker_role.unique_id, *lines)

        def render(values: Sequence[str]) -> str:
            bucket, head_node_role, worker_role, *lines = values
            cluster = ClusterInfo(
                stack=args.naming.stack,
                region=args.account.region,
                bucket=bucket,
                user=args.user,
                auto_scaling_group=args.naming.workers,
                head_node_role_id=head_node_role,
                worker_role_id=worker_role,
            )
            content = ec2_node.cluster_file(
                cluster, role, slots=slots, idle_slots=idle_slots, join_seconds=args.workers.join_seconds
            )
            resolved = [Mount(mount.path, line, mount.owned) for mount, line in zip(mounts, lines, strict=True)]
            return encoded(ec2_node.user_data(content, args.public_keys, resolved))

        return values.apply(render)

    @property
    def head_node(self) -> Ec2HeadNode:
        return self._head_node

    @property
    def workers(self) -> Ec2Workers:
        return self._workers

    @property
    def role_ids(self) -> dict[str, pulumi.Output[str]]:
        """Unique ID of each role. The ID is part of the prefix under which nodes write to the key bucket."""
        return {HEAD_NODE: self._head_node_role.unique_id, WORKER: self._worker_role.unique_id}
