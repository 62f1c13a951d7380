"""EC2 cluster without Kubernetes: a head node and an Auto Scaling group of workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.boot import ec2_node
from infra.boot.ec2_node import ClusterInfo, Mount
from infra.boot.eks_node import encode_base64
from infra.components import iam
from infra.components.ec2_head_node import Ec2HeadNode
from infra.components.ec2_workers import Ec2Workers
from infra.components.file_system import FileSystem
from infra.components.iam import Account
from infra.components.instance_role import InstanceRole
from infra.components.key_bucket import KeyBucket
from infra.components.launch_template import Ec2NodeArgs
from infra.naming import COMPONENT, HEAD_NODE, WORKER, Naming
from infra.plan.specs import Ec2ClusterSpec


@dataclass(frozen=True)
class Ec2ClusterArgs:
    naming: Naming
    account: Account
    spec: Ec2ClusterSpec
    # resources that the nodes use
    keys: KeyBucket
    file_systems: Sequence[FileSystem]
    vpc_id: pulumi.Input[str]
    security_group_id: pulumi.Input[str]
    head_node_subnet_id: pulumi.Input[str]
    worker_subnet_id: pulumi.Input[str]
    placement_group: pulumi.Input[str] | None
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
        join = iam.to_json(iam.allow_join_completion(args.account, naming.workers))
        self._head_node_role = self._create_role(HEAD_NODE, {}, child)
        self._worker_role = self._create_role(WORKER, {"join": join}, child)
        head_node, workers, placement_group = args.spec.head_node, args.spec.workers, args.placement_group
        self.head_node = Ec2HeadNode(
            naming.name(HEAD_NODE),
            head_node,
            Ec2NodeArgs(
                naming,
                self._head_node_role,
                args.security_group_id,
                args.head_node_subnet_id,
                self._build_user_data(HEAD_NODE, slots=head_node.slots, idle_slots=head_node.idle_slots),
                # The head node belongs next to the workers only if it runs ranks.
                placement_group if head_node.slots else None,
                args.after,
            ),
            args.vpc_id,
            child,
        )
        self.workers = Ec2Workers(
            naming.workers,
            workers,
            Ec2NodeArgs(
                naming,
                self._worker_role,
                args.security_group_id,
                args.worker_subnet_id,
                self._build_user_data(WORKER, slots=workers.slots, idle_slots=0),
                placement_group,
                args.after,
            ),
            child,
        )
        self.register_outputs({"masterId": self.head_node.instance_id, "autoScalingGroup": self.workers.group_name})

    def _create_role(self, role: str, more: Mapping[str, pulumi.Input[str]], child: pulumi.ResourceOptions) -> InstanceRole:
        args = self._args
        permissions: dict[str, pulumi.Input[str]] = {
            "keys": args.keys.arn.apply(lambda arn: iam.to_json(iam.allow_node_key_exchange(arn))),
            "members": iam.to_json(iam.allow_member_lookup()),
            **more,
        }
        for file_system in args.file_systems:
            permissions |= file_system.mount_policies
        return InstanceRole(
            args.naming.name(f"{role}-role"),
            args.naming,
            f"{role.capitalize()} of {args.naming.cluster}",
            permissions,
            child,
        )

    def _build_user_data(self, role: ec2_node.NodeRole, *, slots: int, idle_slots: int) -> pulumi.Output[str]:
        args, mounts = self._args, [each.mount for each in self._args.file_systems]
        lines = [mount.fstab for mount in mounts]
        values = pulumi.Output.all(args.keys.name, self._head_node_role.unique_id, self._worker_role.unique_id, *lines)

        def render_script(values: Sequence[str]) -> str:
            bucket, head_node_role, worker_role, *lines = values
            cluster = ClusterInfo(
                stack=args.naming.stack,
                region=args.account.region,
                bucket=bucket,
                user=args.spec.user,
                auto_scaling_group=args.naming.workers,
                head_node_role_id=head_node_role,
                worker_role_id=worker_role,
            )
            content = ec2_node.build_cluster_file(
                cluster, role, slots=slots, idle_slots=idle_slots, join_seconds=args.spec.workers.join_seconds
            )
            resolved = [Mount(mount.path, line, mount.owned) for mount, line in zip(mounts, lines, strict=True)]
            return encode_base64(ec2_node.render_user_data(content, args.spec.public_keys, resolved))

        return values.apply(render_script)

    @property
    def role_ids(self) -> dict[str, pulumi.Output[str]]:
        """Unique ID of each role. The ID is part of the prefix under which nodes write to the key bucket."""
        return {HEAD_NODE: self._head_node_role.unique_id, WORKER: self._worker_role.unique_id}
