"""Check whether an instance can become a Ready node, based on its role, its access entry and its routes to AWS's
services.

The checks are in boot order: nodeadm, the kubelet's registration, then the images and credentials of EKS's own
DaemonSets.

- nodeadm waits for ec2:DescribeInstances: awslabs/amazon-eks-ami@054479d:nodeadm/internal/api/status.go. nodeadm calls
  no EKS API, because the user data contains all details of the cluster.
- Policies of the node role: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
- Access entries: https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html
- Endpoints: https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html. Without an ecr.api endpoint, nodes
  do not become Ready: https://github.com/awsdocs/amazon-eks-user-guide/issues/110
- publicAccessCidrs that do not include the nodes:
  https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2149

The local cloud checks an instance only once, at boot. On AWS, the instance would keep retrying. NOT VERIFIED in an
account (2026-11-23).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls, reachability
from localcloud.aws.ec2.reachability import Origin
from localcloud.aws.eks.node_groups.tags import NODE_GROUP_TAG
from localcloud.aws.eks.state import Cluster, Eks, Record
from localcloud.aws.identity import find_role_policies
from localcloud.aws.patching import get_state
from localcloud.aws.policy_evaluation import Request, allows

NOT_REGISTERED = "Instances failed to join the kubernetes cluster"
NOT_READY = "Unhealthy nodes in the kubernetes cluster"
"""EKS's messages for issue NodeCreationFailure. EKS does not report the reason; the local cloud appends it."""

DESCRIBE = "ec2:DescribeInstances"
TOKEN = "ecr:GetAuthorizationToken"
PULL = (TOKEN, "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
POD_CREDENTIALS = "eks-auth:AssumeRoleForPodIdentity"
ADDRESSES = "ec2:AssignPrivateIpAddresses"
ADDON_REGISTRY = "602401143452"
"""Account that owns the images of EKS's add-ons in most Regions:
https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html"""
POLICY_WITH = {
    DESCRIBE: "AmazonEKSWorkerNodePolicy",
    POD_CREDENTIALS: "AmazonEKSWorkerNodePolicy",
    ADDRESSES: "AmazonEKS_CNI_Policy",
    **dict.fromkeys(PULL, "AmazonEC2ContainerRegistryPullOnly"),
}
"""Maps an action to the managed policy that allows it."""

_ECR = re.compile(r"[0-9]{12}\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_CNI = ("kube-system", "aws-node")
_AGENT = "eks-pod-identity-agent"


@dataclass(frozen=True)
class Obstacle:
    message: str
    """NOT_REGISTERED or NOT_READY."""
    reason: str

    def __str__(self) -> str:
        return f"{self.message}: {self.reason}"


def find_cluster(account: str, region: str, name: str) -> Cluster | None:
    return get_state(backend_of("eks", account, region), Eks).clusters.get(name)


def find_obstacle(cluster: Cluster, instance: Any, role_arn: str) -> Obstacle | None:
    """Return the first problem that prevents the instance from becoming a Ready node, or None if there is none."""
    origin = reachability.build_origin(backend_of("ec2", cluster.account, cluster.region), instance)
    if reason := next(_find_registration_problems(cluster, origin, role_arn), None):
        return Obstacle(NOT_REGISTERED, reason)
    if reason := next(_find_readiness_problems(cluster, origin, role_arn), None):
        return Obstacle(NOT_READY, reason)
    return None


def find_instance_obstacle(cluster: Cluster, instance_id: str) -> Obstacle | None:
    """Return the first obstacle for an instance of a node group. Return None if there is no obstacle, or if the
    instance no longer exists."""
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    instance = next((candidate for candidate in instance_calls.list_instances(ec2) if candidate.id == instance_id), None)
    role_arn = _find_node_role(cluster, instance)
    return find_obstacle(cluster, instance, role_arn) if instance is not None and instance.nics and role_arn else None


def find_node(cluster: Cluster, name: str) -> Any | None:
    """Return the instance with this private DNS name in the cluster's VPC, if any."""
    ec2, vpc = backend_of("ec2", cluster.account, cluster.region), cluster.record["resourcesVpcConfig"]["vpcId"]
    there = (
        instance for instance in instance_calls.list_instances(ec2) if instance.nics and instance.nics[0].subnet.vpc_id == vpc
    )
    return next((instance for instance in there if instance.private_dns_name == name), None)


def find_pull_problem(cluster: Cluster, address: str, registry: str, *, is_layer: bool) -> str:
    """Return why the node with this address cannot pull from a registry, or "" if the node can. Clients other than nodes can
    always pull.
    """
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    instance = reachability.find_instance_by_address(ec2, cluster.record["resourcesVpcConfig"]["vpcId"], address)
    role_arn = _find_node_role(cluster, instance)
    if instance is None or role_arn is None:
        return ""
    origin, image_host = reachability.build_origin(ec2, instance), _ECR.fullmatch(registry)
    if image_host is None or image_host["region"] != cluster.region:
        return reachability.find_host_problem(origin, registry)
    return next(
        _find_layer_download_problems(cluster, origin)
        if is_layer
        else _find_image_pull_problems(cluster, origin, role_arn, registry),
        "",
    )


def find_credentials_problem(cluster: Cluster, instance: Any) -> str:
    """Return why the Pod Identity agent of a node cannot get credentials, or "" if the agent can."""
    role_arn = _find_node_role(cluster, instance)
    if role_arn is None:
        return ""
    origin = reachability.build_origin(backend_of("ec2", cluster.account, cluster.region), instance)
    return next(_find_pod_identity_problems(cluster, origin, role_arn), "")


def _find_node_role(cluster: Cluster, instance: Any | None) -> str | None:
    """Return the node role of an instance's node group; None for other instances."""
    tags = instance.get_tags() if instance is not None else ()
    names = [tag["value"] for tag in tags if tag["key"] == NODE_GROUP_TAG]
    groups = [cluster.node_groups[name] for name in names if name in cluster.node_groups]
    return next((str(group.record["nodeRole"]) for group in groups), None)


def _find_registration_problems(cluster: Cluster, origin: Origin, role_arn: str) -> Iterator[str]:
    yield from _find_permission_problem(cluster, role_arn, DESCRIBE)
    yield from _find_connection_problem(cluster, origin, "ec2")
    yield from filter(None, [_find_api_problem(cluster, origin)])
    entry = cluster.access_entries.get(role_arn)
    if cluster.authentication_mode != "CONFIG_MAP" and (entry is None or entry.record["type"] != "EC2_LINUX"):
        yield f"Unauthorized: {role_arn} has no access entry of type EC2_LINUX in cluster {cluster.name}"


def _find_readiness_problems(cluster: Cluster, origin: Origin, role_arn: str) -> Iterator[str]:
    if not cluster.self_managed_addons and "vpc-cni" not in cluster.addons:
        yield "the cluster has no pod network; install the add-on vpc-cni"
    registry = build_service_host(cluster.region, "ecr.dkr")
    for problem in (
        *_find_image_pull_problems(cluster, origin, role_arn, registry),
        *_find_layer_download_problems(cluster, origin),
    ):
        yield f"aws-node and kube-proxy: ErrImagePull: {problem}"
    for problem in _find_cni_credential_problems(cluster, origin, role_arn):
        yield f"aws-node: {problem}"


def _find_image_pull_problems(cluster: Cluster, origin: Origin, role_arn: str, registry: str) -> Iterator[str]:
    repository = f"arn:aws:ecr:{cluster.region}:{registry.partition('.')[0]}:repository/any"
    for action in PULL:
        yield from _find_permission_problem(cluster, role_arn, action, "*" if action == TOKEN else repository)
    for problem in _find_connection_problem(cluster, origin, "ecr.api"):
        yield f"no basic auth credentials: {problem}"
    yield from filter(None, [reachability.find_service_problem(origin, "ecr.dkr", registry)])


def _find_layer_download_problems(cluster: Cluster, origin: Origin) -> Iterator[str]:
    """https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-minimum-s3-perms"""
    yield from _find_connection_problem(cluster, origin, "s3")
    bucket = f"prod-{cluster.region}-starport-layer-bucket"
    # ECR signs the URLs of layers with credentials of its own account, so this request has no principal of the cluster's
    # account.
    request = Request("s3:GetObject", f"arn:aws:s3:::{bucket}/layer")
    yield from filter(None, [reachability.find_policy_problem(origin, "s3", build_service_host(cluster.region, "s3"), request)])


def _find_cni_credential_problems(cluster: Cluster, origin: Origin, role_arn: str) -> Iterator[str]:
    interface = f"arn:aws:ec2:{cluster.region}:{cluster.account}:network-interface/eni-0"
    addon = cluster.addons.get("vpc-cni")
    association = next(
        (candidate for candidate in list(cluster.associations.values()) if _read_service_account(candidate) == _CNI), None
    )
    if association is not None:
        if _AGENT not in cluster.addons:
            yield f"no credentials; the add-on {_AGENT} is not installed"
        yield from _find_pod_identity_problems(cluster, origin, role_arn)
        yield from _find_permission_problem(cluster, association["roleArn"], ADDRESSES, interface)
    elif addon is not None and (own_role := addon.record.get("serviceAccountRoleArn")):
        yield from _find_connection_problem(cluster, origin, "sts")
        yield from _find_permission_problem(cluster, own_role, ADDRESSES, interface)
    else:
        yield from _find_permission_problem(cluster, role_arn, ADDRESSES, interface)


def _find_pod_identity_problems(cluster: Cluster, origin: Origin, role_arn: str) -> Iterator[str]:
    yield from _find_permission_problem(cluster, role_arn, POD_CREDENTIALS)
    yield from _find_connection_problem(cluster, origin, "eks-auth")


def _read_service_account(association: Record) -> tuple[str, str]:
    return association["namespace"], association["serviceAccount"]


def _find_permission_problem(cluster: Cluster, role_arn: str, action: str, resource: str = "*") -> Iterator[str]:
    """Yield a problem if the role's policies, or its permissions boundary, do not allow the action."""
    role = next((candidate for candidate in list(_get_iam_backend(cluster).roles.values()) if candidate.arn == role_arn), None)
    if role is None:
        yield f"{role_arn} does not exist"
        return
    policies = find_role_policies(_get_iam_backend(cluster), role)
    request = Request(action, resource, {"aws:PrincipalAccount": cluster.account}, {"AWS": role_arn})
    limits = (policies.identity, *([policies.boundary] if policies.boundary else []))
    if not all(allows(request, *documents) for documents in limits):
        yield f"{role_arn} may not call {action}; attach {POLICY_WITH[action]}"


def _get_iam_backend(cluster: Cluster) -> Any:
    return backend_of("iam", cluster.account, cluster.region)


def _find_connection_problem(cluster: Cluster, origin: Origin, service: str) -> Iterator[str]:
    yield from filter(None, [reachability.find_service_problem(origin, service, build_service_host(cluster.region, service))])


def build_service_host(region: str, service: str) -> str:
    """Return the host name of a service: https://docs.aws.amazon.com/general/latest/gr/aws-service-information.html"""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    names = {
        "ecr.api": f"api.ecr.{region}.{suffix}",
        "ecr.dkr": f"{ADDON_REGISTRY}.dkr.ecr.{region}.{suffix}",
        "s3": f"prod-{region}-starport-layer-bucket.s3.{region}.{suffix}",
        "eks-auth": f"eks-auth.{region}.api.aws",
    }
    return names.get(service, f"{service}.{region}.{suffix}")


def _find_api_problem(cluster: Cluster, origin: Origin) -> str:
    """Return why the node cannot reach the Kubernetes API, or "" if the node can.

    In the VPC, the name of a private endpoint resolves to the control plane's interfaces, even if the endpoint is also
    public: https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
    """
    vpc = cluster.record["resourcesVpcConfig"]
    if vpc["endpointPrivateAccess"] and reachability.can_resolve_private_names(origin):
        return "" if _can_reach_control_plane(cluster, origin) else "security groups block port 443 of the control plane"
    if not vpc["endpointPublicAccess"]:
        return f"{origin.vpc.id} needs DNS support and DNS hostnames to resolve the private endpoint of the Kubernetes API"
    if problem := reachability.find_host_problem(origin, "the public endpoint of the Kubernetes API"):
        return problem
    address = reachability.find_source_address(origin)
    cidrs = vpc["publicAccessCidrs"]
    if address is not None and not any(IPv4Address(address) in IPv4Network(cidr) for cidr in cidrs if ":" not in cidr):
        return f"publicAccessCidrs [{', '.join(cidrs)}] do not contain {address}, from which the node calls the Kubernetes API"
    return ""


def _can_reach_control_plane(cluster: Cluster, origin: Origin) -> bool:
    """https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html"""
    vpc, ec2 = cluster.record["resourcesVpcConfig"], origin.ec2
    control_plane = [vpc["clusterSecurityGroupId"], *vpc["securityGroupIds"]]
    groups = [group for group_id in control_plane if (group := ec2.get_security_group_from_id(group_id)) is not None]
    addresses = [IPv4Address(ec2.enis[eni].private_ip_address) for eni in cluster.network_interfaces if eni in ec2.enis]
    let_in = [rule for group in groups for rule in list(group.ingress_rules)]
    return reachability.has_allowing_rule(
        let_in, groups=origin.group_ids, addresses=[origin.address]
    ) and reachability.has_allowing_rule(reachability.list_egress_rules(origin), groups=set(control_plane), addresses=addresses)
