"""Outputs of a stack."""

from collections.abc import Sequence

import pulumi

from infra.components.ec2_cluster import Ec2Cluster
from infra.components.eks_cluster import EksCluster
from infra.components.file_system import FileSystem
from infra.components.key_bucket import KeyBucket
from infra.components.network import Subnets
from infra.components.node_pool import NodePool
from infra.components.node_security_group import NodeSecurityGroup
from infra.jobs.cluster import ClusterDescription
from infra.kubernetes.eks_credentials import render_eks_kubeconfig
from infra.kubernetes.reachability import ApiServer, Check
from infra.plan.efa_interfaces import count_efa_devices
from infra.plan.eks_pools import PoolPlan
from infra.plan.specs import Ec2ClusterSpec


def describe_pool(plan: PoolPlan, group: NodePool) -> dict[str, object]:
    """Return the properties of a pool that users need to run jobs."""
    spec, sizes = plan.spec, plan.spec.sizes
    return {
        "name": spec.name,
        "nodeGroup": group.node_group_name,
        "instanceType": spec.instance_type,
        "capacity": spec.capacity,
        "gpus": plan.instance.gpus,
        "slots": plan.instance.slots,
        "efa": spec.efa_device_count,
        "zones": list(plan.zones),
        "minSize": sizes.minimum,
        "desiredSize": sizes.desired,
        "maxSize": sizes.maximum,
    }


def describe_network(subnets: Subnets, nodes: NodeSecurityGroup) -> dict[str, object]:
    return {
        "vpcId": subnets.vpc_id,
        "privateSubnetIds": dict(subnets.private_subnets),
        "publicSubnetIds": dict(subnets.public_subnets),
        "nodeSecurityGroupId": nodes.id,
    }


def build_eks_kubeconfig(control_plane: EksCluster, *, name: str, region: str, check: Check | None = None) -> pulumi.Output[str]:
    """Return the kubeconfig. First run `check`, if given: it checks that the API server accepts this program's credentials."""
    granted = [entry.id for entry in control_plane.access] if check else ()  # the check needs this access
    parts = pulumi.Output.all(control_plane.endpoint, control_plane.certificate_authority, *granted)

    def render_kubeconfig(values: Sequence[str]) -> str:
        if check:
            check(ApiServer(name, region, values[0], values[1]))
        return render_eks_kubeconfig(name=name, endpoint=values[0], certificate_authority=values[1], region=region)

    return pulumi.Output.secret(parts.apply(render_kubeconfig))


def describe_image_repository(description: ClusterDescription) -> dict[str, str]:
    """Return the repository to which short image names refer, if the cluster has an image repository."""
    return {"imageRepository": description.image_repository} if description.image_repository else {}


def describe_platform(description: ClusterDescription, *, installed: bool) -> dict[str, object]:
    """Return the features that the platform offers to jobs or, if the platform is not installed, how to install it."""
    if not installed:
        return {"installed": False, "how": NOT_INSTALLED}
    factor = description.cpu_request_factor
    scaled = {"cpuRequests": f"multiplied by {factor:g}: these nodes are used in place of larger ones"} if factor < 1 else {}
    return {
        "installed": True,
        "namespaces": [namespace.name for namespace in description.namespaces],
        "queue": description.namespaces[0].queue or "none",
        "mpiOperator": description.mpi_operator,
        **scaled,
    }


NOT_INSTALLED = (
    "set `platform: {install: true}` and run `pulumi up` from a machine that reaches the Kubernetes API: "
    "from a network in target.endpointAccess.privateCidrs if the endpoint is private"
)


def describe_eks_cluster(control_plane: EksCluster, *, name: str, stack: str, region: str) -> dict[str, object]:
    return {
        "clusterName": control_plane.name,
        "clusterEndpoint": control_plane.endpoint,
        "clusterSecurityGroupId": control_plane.security_group_id,
        "kubeconfig": build_eks_kubeconfig(control_plane, name=name, region=region),
        "connect": {
            "kubectl": f"aws eks update-kubeconfig --region {region} --name {name}",
            "kubeconfig": f"pulumi stack output kubeconfig --show-secrets --stack {stack} > kubeconfig.json",
            "nodeShell": f"aws ssm start-session --region {region} --target <instance id>",
        },
    }


def describe_ec2_cluster(cluster: Ec2Cluster, spec: Ec2ClusterSpec, *, name: str, stack: str, region: str) -> dict[str, object]:
    """Return the properties of an EC2 cluster that users and `scripts/cluster` need."""
    head_node, workers, address = cluster.head_node, spec.workers, cluster.head_node.public_address
    public = {} if address is None else {"headNodePublicAddress": address}
    return {
        "clusterName": name,
        "headNodeId": head_node.instance_id,
        "headNodeAddress": head_node.private_address,
        "headNodeSlots": spec.head_node.slots,
        **public,
        "autoScalingGroup": cluster.workers.group_name,
        "roleIds": cluster.role_ids,
        "amiId": workers.ami_id,
        "workers": {
            "name": workers.pool,
            "instanceType": workers.instance_type,
            "capacity": workers.market,
            "gpus": workers.gpus,
            "slots": workers.slots,
            "efa": count_efa_devices(workers.interfaces),
            "zone": spec.zone,
            "minSize": workers.sizes.minimum,
            "desiredSize": workers.sizes.desired,
            "maxSize": workers.sizes.maximum,
        },
        "connect": {
            "wait": f"scripts/cluster wait -s {stack}",
            "run": f"scripts/cluster run -s {stack} -- mpiexec hostname",
            "ssh": f"scripts/cluster ssh -s {stack}",
            "shell": pulumi.Output.concat(f"aws ssm start-session --region {region} --target ", head_node.instance_id),
        },
    }


def describe_storage(file_systems: Sequence[FileSystem], keys: KeyBucket) -> dict[str, object]:
    """Return what clients need to mount the file systems, and the name of the key bucket."""
    return {**{name: value for each in file_systems for name, value in each.exports.items()}, "keyBucket": keys.name}
