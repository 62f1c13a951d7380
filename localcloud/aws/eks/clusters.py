"""Clusters: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html

In the local EC2, a cluster has a security group and network interfaces in its subnets until it is deleted.
"""

import re
import uuid
from typing import Any

from localcloud.aws import durations, logs, sts
from localcloud.aws.call import Call, backend_of
from localcloud.aws.eks import access_entries, cluster_settings, endpoints, network, principals, versions
from localcloud.aws.eks.endpoints import Endpoint
from localcloud.aws.eks.errors import (
    build_in_use_error,
    build_invalid_parameter_error,
    build_invalid_request_error,
    build_not_emulated_error,
    check_quota,
)
from localcloud.aws.eks.state import (
    Cluster,
    Eks,
    Record,
    build_page,
    check_not_updating,
    check_tags,
    clusters,
    find_cluster,
    now,
    publish_cluster,
)
from localcloud.aws.patching import get_state, operation

CLUSTERS = "L-1194D53C"
NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9\-_]{0,99}")


def set_endpoint(account: str, region: str, name: str, url: str, certificate_authority: str, issuer: str | None = None) -> None:
    """Set a cluster's API URL and CA (base64-encoded PEM). The cluster's realizer calls this function.

    Clients see the endpoint once the cluster is ACTIVE.
    """
    cluster = get_state(backend_of("eks", account, region), Eks).clusters[name]
    cluster.endpoint = Endpoint(url, certificate_authority, issuer or cluster.endpoint.issuer)
    if "endpoint" in cluster.record:
        _publish_endpoint(cluster)
        publish_cluster(cluster, "changed")


def set_health_issues(account: str, region: str, name: str, messages: list[str]) -> None:
    """Set a cluster's health issues. The cluster's realizer calls this function."""
    cluster = get_state(backend_of("eks", account, region), Eks).clusters[name]
    cluster.record["health"]["issues"] = [_build_issue(cluster, message) for message in messages]


def _build_issue(cluster: Cluster, message: str) -> Record:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_ClusterIssue.html"""
    return {"code": "InternalFailure", "message": message, "resourceIds": [cluster.name]}


@operation("eks", "CreateCluster")
def create_cluster(call: Call) -> Record:
    name, token = call.params["name"], call.params.get("clientRequestToken", "")
    existing = clusters(call).get(name)
    if existing is not None:
        if token and token == existing.token:
            return {"cluster": existing.record}
        raise build_in_use_error(f"Cluster already exists with name: {name}", clusterName=name)
    cluster_settings.check_all_emulated(call.params)
    check_quota(CLUSTERS, "Cluster", len(clusters(call)), clusterName=name)
    record = _build_record(call)
    vpc = record["resourcesVpcConfig"]
    ec2 = call.backend_of("ec2")
    group_id = network.create_cluster_security_group(ec2, name, vpc["vpcId"], record["id"][:10])
    vpc["clusterSecurityGroupId"] = group_id
    cluster = Cluster(
        record=record,
        account=call.account,
        region=call.region,
        token=token,
        creator=principals.find_creator_arn(call),
        self_managed_addons=call.params.get("bootstrapSelfManagedAddons", True),
        endpoint=endpoints.make_endpoint(call.region),
        network_interfaces=network.create_network_interfaces(
            ec2, name, network.find_subnets(ec2, vpc["subnetIds"]), [group_id, *vpc["securityGroupIds"]]
        ),
    )
    clusters(call)[name] = cluster
    durations.schedule(
        record,
        "status",
        "CREATING",
        lambda: _finish_creation(cluster),
        "eks-cluster",
        then=lambda: publish_cluster(cluster, "changed"),
        gate=lambda: cluster.progress().done,
        fail=lambda reason: _mark_failed(cluster, reason),
    )
    publish_cluster(cluster, "created")
    return {"cluster": record}


def _build_record(call: Call) -> Record:
    """Return the record for a new cluster, without creating the cluster. Raise EKS's errors for invalid settings."""
    params, name = call.params, call.params["name"]
    if not NAME.fullmatch(name):
        raise build_invalid_parameter_error(
            f"The cluster name {name!r} does not match ^[0-9A-Za-z][A-Za-z0-9\\-_]{{0,99}}$", clusterName=name
        )
    version = versions.find_offered_version(params.get("version", versions.DEFAULT))
    _check_role(call, params["roleArn"], name)
    kubernetes_network = params.get("kubernetesNetworkConfig", {})
    if kubernetes_network.get("ipFamily", "ipv4") != "ipv4":
        raise build_not_emulated_error("clusters of IP family ipv6")
    vpc = _build_vpc_config(call, name)
    identifier = str(uuid.uuid4())
    record: Record = {
        "name": name,
        "arn": _build_cluster_arn(call, name),
        "id": identifier,
        "createdAt": now(),
        "version": version.name,
        "platformVersion": version.platform,
        "roleArn": params["roleArn"],
        "resourcesVpcConfig": vpc,
        "kubernetesNetworkConfig": {
            "serviceIpv4Cidr": network.choose_service_cidr(
                call.backend_of("ec2"), vpc["vpcId"], kubernetes_network.get("serviceIpv4Cidr"), name
            ),
            "ipFamily": "ipv4",
            "elasticLoadBalancing": {"enabled": False},
        },
        "logging": cluster_settings.merge_logging(params.get("logging", {})),
        "certificateAuthority": {},
        "tags": check_tags(params.get("tags", {})),
        "health": {"issues": []},
        "accessConfig": cluster_settings.read_access_config(params.get("accessConfig", {})),
        "upgradePolicy": cluster_settings.read_upgrade_policy(params.get("upgradePolicy", {}), version),
        "deletionProtection": params.get("deletionProtection", False),
    }
    if params.get("encryptionConfig"):
        record["encryptionConfig"] = cluster_settings.read_encryption_config(call, params["encryptionConfig"])
    return record


def _build_cluster_arn(call: Call, cluster: str) -> str:
    return f"arn:aws:eks:{call.region}:{call.account}:cluster/{cluster}"


def _check_role(call: Call, arn: str, cluster: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/cross-service-confused-deputy-prevention.html"""
    role = principals.find_role(call, arn)
    source = {"aws:sourceaccount": call.account, "aws:sourcearn": _build_cluster_arn(call, cluster)}
    if role is None or not sts.trusts(role, ("Service", "eks.amazonaws.com"), {}, source):
        raise build_invalid_parameter_error(
            f"Role with arn: {arn}, could not be assumed because it does not exist or the trusted entity is not correct",
            clusterName=cluster,
        )


def _build_vpc_config(call: Call, cluster: str) -> Record:
    requested, ec2 = call.params["resourcesVpcConfig"], call.backend_of("ec2")
    public, private = cluster_settings.read_endpoint_access(requested)
    subnets: list[Any] = network.find_cluster_subnets(ec2, requested.get("subnetIds", []), cluster)
    groups = requested.get("securityGroupIds", [])
    network.check_security_groups(ec2, groups, subnets[0].vpc_id, cluster)
    return {
        "subnetIds": [subnet.id for subnet in subnets],
        "securityGroupIds": groups,
        "vpcId": subnets[0].vpc_id,
        "endpointPublicAccess": public,
        "endpointPrivateAccess": private,
        "publicAccessCidrs": network.check_public_cidrs(requested.get("publicAccessCidrs") or ["0.0.0.0/0"], cluster)
        if public
        else [],
    }


def _deliver_last_logs(cluster: Cluster) -> None:
    """Deliver audit logs after the deletion, as EKS does:
    https://github.com/terraform-aws-modules/terraform-aws-eks/issues/920"""
    if any(logging["enabled"] for logging in cluster.record["logging"]["clusterLogging"]):
        logs.start_late_delivery(backend_of("logs", cluster.account, cluster.region), f"/aws/eks/{cluster.name}/cluster")


def _finish_creation(cluster: Cluster) -> str:
    """Return the status of a new cluster. For an ACTIVE cluster, publish the endpoint and add the creator's access
    entry unless the authentication mode is CONFIG_MAP."""
    if problem := cluster.progress().problem:
        _mark_failed(cluster, problem)
        return "FAILED"
    _publish_endpoint(cluster)
    if cluster.authentication_mode != "CONFIG_MAP":
        access_entries.add_creator_entry(cluster)
    return "ACTIVE"


def _mark_failed(cluster: Cluster, reason: str) -> None:
    cluster.record["status"] = "FAILED"
    cluster.record["health"]["issues"] = [_build_issue(cluster, reason)]


def _publish_endpoint(cluster: Cluster) -> None:
    cluster.record["endpoint"] = cluster.endpoint.url
    cluster.record["certificateAuthority"] = {"data": cluster.endpoint.certificate_authority}
    cluster.record["identity"] = {"oidc": {"issuer": cluster.endpoint.issuer}}


@operation("eks", "DescribeCluster")
def describe_cluster(call: Call) -> Record:
    return {"cluster": find_cluster(call).record}


@operation("eks", "ListClusters")
def list_clusters(call: Call) -> Record:
    return build_page(call, "clusters", sorted(clusters(call)))


@operation("eks", "DeleteCluster")
def delete_cluster(call: Call) -> Record:
    cluster = find_cluster(call)
    if cluster.status == "DELETING":
        return {"cluster": cluster.record}
    if cluster.node_groups:
        raise build_in_use_error(
            "Cluster has nodegroups attached", clusterName=cluster.name, nodegroupName=",".join(cluster.node_groups)
        )
    if cluster.record["deletionProtection"]:
        raise build_invalid_request_error(
            f"Cluster {cluster.name} cannot be deleted: deletion protection is enabled", clusterName=cluster.name
        )
    if cluster.status == "CREATING":
        raise build_in_use_error(
            f"Cannot delete because cluster {cluster.name} has its creation in progress", clusterName=cluster.name
        )
    check_not_updating(f"cluster {cluster.name}", cluster.updates, "delete")
    ec2, all_clusters = call.backend_of("ec2"), clusters(call)

    def finish_deletion() -> None:
        all_clusters.pop(cluster.name, None)
        network.delete_network_interfaces(ec2, cluster.network_interfaces)
        network.delete_cluster_security_group(ec2, cluster.record["resourcesVpcConfig"]["clusterSecurityGroupId"])
        publish_cluster(cluster, "gone")
        _deliver_last_logs(cluster)

    durations.schedule(
        cluster.record,
        "status",
        "DELETING",
        "DELETED",
        "eks-cluster-delete",
        then=finish_deletion,
        gate=lambda: cluster.progress().done,
        fail=lambda reason: _mark_failed(cluster, reason),
    )
    publish_cluster(cluster, "changed")
    return {"cluster": cluster.record}
