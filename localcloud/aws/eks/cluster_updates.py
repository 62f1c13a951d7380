"""Cluster updates. Each update changes one type of setting and takes as long as on AWS.

https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
"""

from collections.abc import Callable
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.eks import access_entries, cluster_settings, network, updates, versions
from localcloud.aws.eks.errors import build_invalid_parameter_error, build_invalid_request_error
from localcloud.aws.eks.state import Cluster, Record, check_not_updating, find_cluster, publish_cluster, publish_update
from localcloud.aws.patching import operation

KUBELET_SKEW = 3
"""Maximum number of minor versions that nodes can lag behind the control plane.

https://kubernetes.io/releases/version-skew-policy/#kubelet
"""

_KINDS = ("resourcesVpcConfig", "logging", "accessConfig", "upgradePolicy", "deletionProtection")
_AUTO_MODE = {"computeConfig", "kubernetesNetworkConfig", "storageConfig"}
"""Parameters that turn EKS Auto Mode on and off, in one update."""
_ENDPOINT = ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs")
_VPC = ("subnetIds", "securityGroupIds")

Change = tuple[str, Record, Callable[[], None]]
"""Update type, its parameters, and the function that applies the change when the update ends."""


@operation("eks", "UpdateClusterConfig")
def update_cluster_config(call: Call) -> Record:
    cluster = find_cluster(call)
    cluster_settings.check_all_emulated(call.params)
    if set(call.params.get("kubernetesNetworkConfig", {})) - {"elasticLoadBalancing"}:
        raise build_invalid_parameter_error(
            "kubernetesNetworkConfig can only change elasticLoadBalancing", clusterName=cluster.name
        )
    kinds = [kind for kind in _KINDS if kind in call.params]
    if not kinds and _AUTO_MODE & call.params.keys():  # EKS Auto Mode is off, and stays off
        return {"update": _start_update(cluster, "AutoModeUpdate", {}, "eks-cluster-update", lambda: None)}
    if len(kinds) > 1:
        raise build_invalid_parameter_error("Only one type of update can be allowed.", clusterName=cluster.name)
    if not kinds:
        raise build_invalid_parameter_error("Invalid type for cluster update.", clusterName=cluster.name)
    update_type, params, apply = _CHANGES[kinds[0]](call, cluster)
    return {"update": _start_update(cluster, update_type, params, "eks-cluster-update", apply)}


@operation("eks", "UpdateClusterVersion")
def update_cluster_version(call: Call) -> Record:
    """EKS rolls back one minor version within 7 days of an upgrade, if no node is newer:
    https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html. The local EKS rejects such a rollback.
    """
    cluster = find_cluster(call)
    version = versions.find_offered_version(call.params["version"])
    current = versions.VERSIONS[cluster.version]
    if "rollbackConfig" in call.params or version.minor == current.minor - 1:
        raise build_invalid_request_error("The local cloud's EKS does not emulate version rollbacks.", clusterName=cluster.name)
    if version.minor != current.minor + 1:
        raise build_invalid_parameter_error(
            f"Unsupported Kubernetes minor version update from {current.name} to {version.name}", clusterName=cluster.name
        )
    behind = [
        name
        for name, group in cluster.node_groups.items()
        if "version" in group.record and version.minor - versions.parse_minor_version(group.record["version"]) > KUBELET_SKEW
    ]
    if behind:
        raise build_invalid_parameter_error(
            f"Nodegroups {', '.join(behind)} must be updated to match cluster version {current.name} "
            "before updating cluster version",
            clusterName=cluster.name,
        )

    def apply_version() -> None:
        cluster.record.update(version=version.name, platformVersion=version.platform)

    params = {"Version": version.name, "PlatformVersion": version.platform}
    return {"update": _start_update(cluster, "VersionUpdate", params, "eks-cluster-version-update", apply_version)}


@operation("eks", "AssociateEncryptionConfig")
def associate_encryption_config(call: Call) -> Record:
    """Encrypt Secrets.

    Encryption can be enabled only once and cannot be disabled:
    https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
    """
    cluster = find_cluster(call)
    if cluster.record.get("encryptionConfig"):
        raise build_invalid_parameter_error("Encryption config is already associated with the cluster", clusterName=cluster.name)
    config = cluster_settings.read_encryption_config(call, call.params["encryptionConfig"])
    if not config:
        raise build_invalid_parameter_error("Encryption config is empty", clusterName=cluster.name)

    def apply_encryption() -> None:
        cluster.record["encryptionConfig"] = config

    return {
        "update": _start_update(
            cluster, "AssociateEncryptionConfig", {"EncryptionConfig": config}, "eks-cluster-update", apply_encryption
        )
    }


def _start_update(cluster: Cluster, update_type: str, params: Record, duration: str, apply: Callable[[], None]) -> Record:
    check_not_updating(f"cluster {cluster.name}", cluster.updates, update_type)
    if cluster.status != "ACTIVE":
        raise build_invalid_request_error(f"Cluster '{cluster.name}' is not in ACTIVE status", clusterName=cluster.name)

    def finish_update(update: Record) -> None:
        if problem := cluster.progress().problem:
            updates.fail_update(update, "Unknown", problem, [cluster.name])
        else:
            apply()
        mark_active()

    def mark_active() -> None:
        cluster.record["status"] = "ACTIVE"
        publish_cluster(cluster, "changed")

    def can_finish() -> bool:
        return cluster.progress().done

    update = updates.start_update(cluster.updates, update_type, params, duration, finish_update, can_finish, failed=mark_active)
    cluster.record["status"] = "UPDATING"
    publish_update(cluster, update)
    return update


def _change_vpc_config(call: Call, cluster: Cluster) -> Change:
    requested = call.params["resourcesVpcConfig"]
    endpoint = {name: requested[name] for name in _ENDPOINT if name in requested}
    inside = {name: requested[name] for name in _VPC if name in requested}
    if endpoint and inside:
        raise build_invalid_parameter_error("Only one type of update can be allowed.", clusterName=cluster.name)
    return _change_endpoint_access(cluster, endpoint) if endpoint else _change_subnets_and_groups(call, cluster, inside)


def _change_endpoint_access(cluster: Cluster, change: Record) -> Change:
    """https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html"""
    current = cluster.record["resourcesVpcConfig"]
    public, private = cluster_settings.read_endpoint_access({**current, **change})
    cidrs = network.check_public_cidrs(
        change.get("publicAccessCidrs") or current["publicAccessCidrs"] or ["0.0.0.0/0"], cluster.name
    )
    cidrs = cidrs if public else []
    after = {"endpointPublicAccess": public, "endpointPrivateAccess": private, "publicAccessCidrs": cidrs}
    if all(current[name] == value for name, value in after.items()):
        raise build_invalid_parameter_error(
            f"Cluster is already at the desired configuration with endpointPrivateAccess: {str(private).lower()} , "
            f"endpointPublicAccess: {str(public).lower()}, and Public Endpoint Restrictions: [{', '.join(cidrs)}]",
            clusterName=cluster.name,
        )
    params = {"EndpointPublicAccess": public, "EndpointPrivateAccess": private, "PublicAccessCidrs": cidrs}
    return "EndpointAccessUpdate", params, lambda: current.update(after)


def _change_subnets_and_groups(call: Call, cluster: Cluster, requested: Record) -> Change:
    """Return the change to the subnets and security groups. The VPC and the Availability Zones cannot change.

    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    """
    current, ec2 = cluster.record["resourcesVpcConfig"], call.backend_of("ec2")
    subnet_ids = requested.get("subnetIds", current["subnetIds"])
    groups = requested.get("securityGroupIds", current["securityGroupIds"])
    chosen: list[Any] = network.find_cluster_subnets(ec2, subnet_ids, cluster.name)
    if any(subnet.vpc_id != current["vpcId"] for subnet in chosen):
        raise build_invalid_parameter_error(
            f"Specified subnets must belong to cluster's vpc {current['vpcId']}", clusterName=cluster.name
        )
    network.check_same_zones(chosen, network.find_subnets(ec2, current["subnetIds"]), cluster.name)
    network.check_security_groups(ec2, groups, current["vpcId"], cluster.name)
    if set(subnet_ids) == set(current["subnetIds"]) and set(groups) == set(current["securityGroupIds"]):
        raise build_invalid_parameter_error("No changes needed for the VPC config provided", clusterName=cluster.name)

    def apply_vpc_config() -> None:
        network.delete_network_interfaces(ec2, cluster.network_interfaces)
        all_groups = [current["clusterSecurityGroupId"], *groups]
        cluster.network_interfaces = network.create_network_interfaces(ec2, cluster.name, chosen, all_groups)
        current.update(subnetIds=subnet_ids, securityGroupIds=groups)

    return "VpcConfigUpdate", {"Subnets": subnet_ids, "SecurityGroups": groups}, apply_vpc_config


def _change_logging(call: Call, cluster: Cluster) -> Change:
    after = cluster_settings.merge_logging(call.params["logging"], cluster.record["logging"])
    if after == cluster.record["logging"]:
        raise build_invalid_parameter_error("No changes needed for the logging config provided", clusterName=cluster.name)
    return "LoggingUpdate", {"ClusterLogging": after}, lambda: cluster.record.update(logging=after)


def _change_authentication_mode(call: Call, cluster: Cluster) -> Change:
    """Return the change to the authentication mode. EKS allows changes only toward API, never back.

    https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    """
    modes, current = cluster_settings.AUTHENTICATION_MODES, cluster.authentication_mode
    mode = call.params["accessConfig"].get("authenticationMode")
    if mode not in modes or modes.index(mode) != modes.index(current) + 1:
        raise build_invalid_parameter_error(
            f"Unsupported authentication mode update from {current} to {mode}", clusterName=cluster.name
        )

    def apply_authentication_mode() -> None:
        cluster.record["accessConfig"]["authenticationMode"] = mode
        access_entries.add_creator_entry(cluster)
        for group in cluster.node_groups.values():
            access_entries.add_node_entry(cluster, group.record["nodeRole"])

    return "AccessConfigUpdate", {"AuthenticationMode": mode}, apply_authentication_mode


def _change_upgrade_policy(call: Call, cluster: Cluster) -> Change:
    after = cluster_settings.read_upgrade_policy(call.params["upgradePolicy"], versions.VERSIONS[cluster.version])
    if after == cluster.record["upgradePolicy"]:
        raise build_invalid_parameter_error("No changes needed for the upgrade policy provided", clusterName=cluster.name)
    return "UpgradePolicyUpdate", {"UpgradePolicy": after}, lambda: cluster.record.update(upgradePolicy=after)


def _change_deletion_protection(call: Call, cluster: Cluster) -> Change:
    after = call.params["deletionProtection"]
    if after == cluster.record["deletionProtection"]:
        raise build_invalid_parameter_error("No changes needed for the deletion protection provided", clusterName=cluster.name)
    return "DeletionProtectionUpdate", {"DeletionProtection": after}, lambda: cluster.record.update(deletionProtection=after)


_CHANGES: dict[str, Callable[[Call, Cluster], Change]] = {
    "resourcesVpcConfig": _change_vpc_config,
    "logging": _change_logging,
    "accessConfig": _change_authentication_mode,
    "upgradePolicy": _change_upgrade_policy,
    "deletionProtection": _change_deletion_protection,
}
