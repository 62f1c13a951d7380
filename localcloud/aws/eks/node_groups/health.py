"""Health issues of a node group, as EKS reports them.

https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html
https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html
"""

from ipaddress import IPv4Address, IPv4Network
from typing import Any

from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import launch_templates
from localcloud.aws.eks.node_groups import launch, nodes
from localcloud.aws.eks.state import Cluster, NodeGroup, Record
from localcloud.aws.errors import AwsError

_CODES = {"InsufficientFreeAddressesInSubnet": "InsufficientFreeAddresses"}
"""EC2 launch error -> EKS issue code. All other errors are AsgInstanceLaunchFailures."""

_CREATION_CODES = (
    ("image", "AmiIdNotFound"),
    ("Invalid IAM Instance Profile", "IamInstanceProfileNotFound"),
    ("security group", "Ec2SecurityGroupNotFound"),
    ("subnet ID", "Ec2SubnetNotFound"),
)
"""Part of Auto Scaling's error message -> EKS issue code.

All other errors are Ec2LaunchTemplateInvalidConfiguration.
"""

HTTPS = 443
ANYWHERE = IPv4Network("0.0.0.0/0")


def issue(code: str, message: str, resource_ids: list[str]) -> Record:
    return {"code": code, "message": message, "resourceIds": resource_ids}


def of_refused_group(error: AwsError, name: str) -> Record:
    """Return the health issue of a node group whose Auto Scaling group could not be created."""
    code = next((code for part, code in _CREATION_CODES if part in error.message), "Ec2LaunchTemplateInvalidConfiguration")
    return issue(code, error.message, [name])


def of_refused_launch(error: AwsError, name: str) -> Record:
    return issue(_CODES.get(error.code, "AsgInstanceLaunchFailures"), error.message, [name])


def launch_problems(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return the issues of an existing node group: missing resources and failed launches."""
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    found = nodes.auto_scaling_groups(cluster, group)
    gone = [name for name in group.group_names if name not in {scaling.name for scaling in found}]
    problems = [
        issue("AutoScalingGroupNotFound", f"We couldn't find the Auto Scaling group {name} of the node group.", [name])
        for name in gone
    ]
    if group.template_id is not None and group.template_id not in ec2.launch_templates:
        text = f"We couldn't find the Amazon EC2 launch template {group.template_id} for your managed node group."
        problems.append(issue("Ec2LaunchTemplateNotFound", text, [group.template_id]))
    for scaling in found:
        refused = capacity.refusals(scaling)
        if refused:
            problems.append(of_refused_launch(refused[0], scaling.name))
    return problems


def join_problems(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return the issues that keep new instances from joining as nodes."""
    instances = nodes.in_service(cluster, group)
    ids = [instance.id for instance in instances]
    if not instances:
        return []
    public = sorted({subnet for instance in instances if (subnet := _public_subnet_without_address(cluster, instance))})
    if public:
        text = (
            f"One or more Amazon EC2 Subnets of [{', '.join(public)}] for node group {group.name} does not automatically assign "
            "public IP addresses to instances launched into it. If you want your instances to be assigned a public IP address, "
            "then you need to enable auto-assign public IP address for the subnet."
        )
        return [issue("Ec2SubnetInvalidConfiguration", text, public)]
    if not all(_reaches_control_plane(cluster, instance) for instance in instances) or not _knows_its_cluster(cluster, group):
        return [issue("NodeCreationFailure", "Instances failed to join the kubernetes cluster", ids)]
    if not cluster.self_managed_addons and "vpc-cni" not in cluster.addons:
        # Without a pod network, no node becomes Ready.
        return [issue("NodeCreationFailure", "Unhealthy nodes in the kubernetes cluster", ids)]
    return []


def of_nodes(problem: str, name: str) -> list[Record]:
    """Return a health issue for the problem that the realizer reports for the nodes, if any."""
    return [issue("NodeCreationFailure", problem, [name])] if problem else []


def _knows_its_cluster(cluster: Cluster, group: NodeGroup) -> bool:
    """Return whether nodes know which cluster to join.

    EKS configures nodes that use its own AMIs. With a custom AMI, the user data must name the cluster.
    """
    if group.record["amiType"] != "CUSTOM":
        return True
    template = backend_of("ec2", cluster.account, cluster.region).launch_templates[group.template_id]
    return launch.joins_by_itself(launch_templates.plain(template.default_version().data).get("UserData"))


def _public_subnet_without_address(cluster: Cluster, instance: Any) -> str | None:
    """Return the node's subnet id if the subnet is public and the node lacks the public address that it needs there.

    https://docs.aws.amazon.com/eks/latest/userguide/create-managed-node-group.html
    """
    if instance.public_ip_address:
        return None
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    subnet = ec2.get_subnet(instance.subnet_id)
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == subnet.vpc_id]
    own = [table for table in tables if subnet.id in table._associations.values()]
    main = [table for table in tables if table.main_association_id]
    routes = [route for table in (own or main) for route in table.routes]
    is_public = any(str(getattr(route.gateway, "id", "")).startswith("igw-") for route in routes)
    return str(subnet.id) if is_public else None


def _reaches_control_plane(cluster: Cluster, instance: Any) -> bool:
    """Return whether security groups let the node reach the private or public endpoint of the Kubernetes API.

    https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
    """
    vpc = cluster.record["resourcesVpcConfig"]
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    own = list(instance.nics[0].group_set)
    own_ids = {group.id for group in own}
    if not vpc["endpointPrivateAccess"]:
        return any(_permits(rule, set(), None) for group in own for rule in group.egress_rules)
    control_plane = [vpc["clusterSecurityGroupId"], *vpc["securityGroupIds"]]
    address = IPv4Address(instance.private_ip_address)
    addresses = [IPv4Address(ec2.enis[eni].private_ip_address) for eni in cluster.network_interfaces if eni in ec2.enis]
    lets_in = any(
        _permits(rule, own_ids, address)
        for group_id in control_plane
        if (group := ec2.get_security_group_from_id(group_id)) is not None
        for rule in group.ingress_rules
    )
    lets_out = any(
        _permits(rule, set(control_plane), other) for group in own for rule in group.egress_rules for other in addresses
    )
    return lets_in and lets_out


def _permits(rule: Any, group_ids: set[str], address: IPv4Address | None) -> bool:
    """Return whether a rule allows HTTPS to or from one of the groups or the address (None means any address)."""
    if rule.ip_protocol not in ("-1", "tcp") or not (rule.from_port or 0) <= HTTPS <= (rule.to_port or HTTPS):
        return False
    if rule.source_group.get("GroupId") in group_ids:
        return True
    if not rule.cidr_ipv4:
        return False
    network = IPv4Network(rule.cidr_ipv4)
    return network == ANYWHERE if address is None else address in network
