"""EKS clusters: descriptions, created resources, updates and deletion."""

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography import x509

from localcloud.aws import durations, events
from localcloud.aws.account import ACCOUNT, USER_ARN
from localcloud.aws.eks import clusters
from testkit.aws_clients import REGION, Client, LocalAws
from testkit.eks_world import World


@pytest.fixture
def world(aws: Client) -> World:
    return World(aws)


def update_cluster(world: World, **change: Any) -> dict[str, Any]:
    """Update the cluster's configuration; return the finished update."""
    identifier = world.eks.update_cluster_config(name="demo", **change)["update"]["id"]
    done: dict[str, Any] = world.eks.describe_update(name="demo", updateId=identifier)["update"]
    return done


def test_a_cluster_is_creating_first_and_then_active_with_an_endpoint(world: World) -> None:
    created = world.eks.create_cluster(**world.build_cluster_request())["cluster"]
    assert (created["status"], created.get("endpoint"), created["certificateAuthority"]) == ("CREATING", None, {})
    active = world.describe()
    assert active["status"] == "ACTIVE"
    assert active["endpoint"].endswith(f".{REGION}.eks.amazonaws.com")


def test_a_cluster_with_defaults_matches_the_eks_defaults(world: World) -> None:
    cluster = world.cluster(accessConfig=None)
    assert cluster["version"] == "1.35"
    assert cluster["accessConfig"] == {"bootstrapClusterCreatorAdminPermissions": True, "authenticationMode": "CONFIG_MAP"}
    assert cluster["upgradePolicy"] == {"supportType": "EXTENDED"}
    assert cluster["deletionProtection"] is False
    assert "computeConfig" not in cluster
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "172.20.0.0/16"
    assert [setup["enabled"] for setup in cluster["logging"]["clusterLogging"]] == [False]
    assert cluster["resourcesVpcConfig"]["vpcId"] == world.vpc
    assert cluster["resourcesVpcConfig"]["publicAccessCidrs"] == ["0.0.0.0/0"]


def test_a_vpc_outside_of_10_0_0_0_8_gets_service_addresses_in_10_100_0_0_16(world: World) -> None:
    vpc = world.create_vpc("192.168.0.0/16")
    subnets = [world.subnet(0, zone, vpc, f"192.168.{index}.0/24") for index, zone in enumerate("ab")]
    assert world.cluster(vpc={"subnetIds": subnets})["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"


def test_a_cluster_has_its_requested_settings(world: World) -> None:
    key = world.key()
    cluster = world.cluster(
        version="1.34",
        vpc={"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]},
        kubernetesNetworkConfig={"serviceIpv4Cidr": "172.16.0.0/20"},
        logging={"clusterLogging": [{"types": ["api", "audit"], "enabled": True}]},
        encryptionConfig=[{"resources": ["secrets"], "provider": {"keyArn": key}}],
        upgradePolicy={"supportType": "STANDARD"},
        deletionProtection=True,
        tags={"cost-center": "research"},
    )
    assert cluster["version"] == "1.34"
    assert cluster["resourcesVpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "172.16.0.0/20"
    assert cluster["logging"]["clusterLogging"][0] == {"types": ["api", "audit"], "enabled": True}
    assert cluster["encryptionConfig"][0]["provider"]["keyArn"] == key
    assert cluster["upgradePolicy"] == {"supportType": "STANDARD"}
    assert cluster["deletionProtection"] is True
    assert cluster["tags"] == {"cost-center": "research"}


def test_every_cluster_has_its_own_endpoint_oidc_issuer_and_certificate(world: World) -> None:
    first, second = world.cluster("first"), world.cluster("second")
    assert first["endpoint"] != second["endpoint"]
    assert first["identity"]["oidc"]["issuer"] != second["identity"]["oidc"]["issuer"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(first["certificateAuthority"]["data"]))
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_the_kubernetes_emulator_sets_the_cluster_endpoint_and_certificate(world: World) -> None:
    published: list[events.Event] = []
    unregister = events.register_realizer(published.append)
    try:
        world.eks.create_cluster(**world.build_cluster_request())
        clusters.set_endpoint(ACCOUNT, REGION, "demo", "https://127.0.0.1:6443", "Q0E=")
        cluster = world.describe()
        world.eks.delete_cluster(name="demo")
        world.eks.list_clusters()
    finally:
        unregister()
    assert (cluster["endpoint"], cluster["certificateAuthority"]["data"]) == ("https://127.0.0.1:6443", "Q0E=")
    actions = [event.action for event in published if (event.kind, event.name) == ("cluster", "demo")]
    assert (actions[0], actions[-1]) == ("created", "gone")


def test_the_cluster_security_group_allows_its_members_and_all_egress(world: World) -> None:
    group_id = world.cluster()["resourcesVpcConfig"]["clusterSecurityGroupId"]
    group = world.ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
    assert group["GroupName"].startswith("eks-cluster-sg-demo-")
    assert {"Key": "aws:eks:cluster-name", "Value": "demo"} in group["Tags"]
    rules = world.ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group_id]}])["SecurityGroupRules"]
    allowed = {(rule["IsEgress"], rule.get("CidrIpv4"), rule.get("ReferencedGroupInfo", {}).get("GroupId")) for rule in rules}
    assert allowed == {(False, None, group_id), (True, None, group_id), (True, "0.0.0.0/0", None)}
    assert {rule["IpProtocol"] for rule in rules} == {"-1"}


def list_interfaces(world: World) -> list[dict[str, Any]]:
    """Return the control plane's network interfaces."""
    filters = [{"Name": "description", "Values": ["Amazon EKS demo"]}]
    control_plane: list[dict[str, Any]] = world.ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
    return control_plane


def test_the_control_plane_has_an_interface_in_each_zone_with_its_security_groups(world: World) -> None:
    extra = world.security_group()
    vpc = world.cluster(vpc={"securityGroupIds": [extra]})["resourcesVpcConfig"]
    control_plane = list_interfaces(world)
    assert {interface["SubnetId"] for interface in control_plane} == set(world.subnets)
    groups = {group["GroupId"] for interface in control_plane for group in interface["Groups"]}
    assert groups == {vpc["clusterSecurityGroupId"], extra}


def test_deleting_a_cluster_deletes_its_security_group_and_interfaces(world: World) -> None:
    group_id = world.cluster()["resourcesVpcConfig"]["clusterSecurityGroupId"]
    assert world.eks.delete_cluster(name="demo")["cluster"]["status"] == "DELETING"
    assert world.eks.list_clusters()["clusters"] == []
    assert list_interfaces(world) == []
    assert group_id not in [group["GroupId"] for group in world.ec2.describe_security_groups()["SecurityGroups"]]


def test_a_cluster_security_group_referenced_by_another_group_is_not_deleted(world: World) -> None:
    """Real EKS cannot delete a referenced security group either."""
    group_id, other = world.cluster()["resourcesVpcConfig"]["clusterSecurityGroupId"], world.security_group()
    world.ec2.authorize_security_group_ingress(
        GroupId=other, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}]
    )
    world.eks.delete_cluster(name="demo")
    assert world.eks.list_clusters()["clusters"] == []
    assert group_id in [group["GroupId"] for group in world.ec2.describe_security_groups()["SecurityGroups"]]


def test_the_creator_becomes_administrator_only_if_requested(world: World) -> None:
    world.cluster("wanted")
    world.cluster("unwanted", accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False})
    assert world.eks.list_access_entries(clusterName="wanted")["accessEntries"] == [USER_ARN]
    policies = world.eks.list_associated_access_policies(clusterName="wanted", principalArn=USER_ARN)["associatedAccessPolicies"]
    assert [policy["policyArn"].rsplit("/", 1)[-1] for policy in policies] == ["AmazonEKSClusterAdminPolicy"]
    assert world.eks.list_access_entries(clusterName="unwanted")["accessEntries"] == []


def test_the_same_client_token_returns_the_same_cluster(world: World) -> None:
    request = world.build_cluster_request(clientRequestToken="once")
    first = world.eks.create_cluster(**request)["cluster"]
    assert world.eks.create_cluster(**request)["cluster"]["arn"] == first["arn"]


# --- changes


@pytest.mark.parametrize(
    ("change", "update_type", "member", "expected"),
    [
        (
            {"logging": {"clusterLogging": [{"types": ["audit"], "enabled": True}]}},
            "LoggingUpdate",
            "logging",
            {
                "clusterLogging": [
                    {"types": ["audit"], "enabled": True},
                    {"types": ["api", "authenticator", "controllerManager", "scheduler"], "enabled": False},
                ]
            },
        ),
        ({"upgradePolicy": {"supportType": "STANDARD"}}, "UpgradePolicyUpdate", "upgradePolicy", {"supportType": "STANDARD"}),
        ({"deletionProtection": True}, "DeletionProtectionUpdate", "deletionProtection", True),
    ],
    ids=["logging", "upgrade policy", "deletion protection"],
)
def test_a_cluster_change_is_recorded_as_an_update_and_takes_effect(
    world: World, change: dict[str, Any], update_type: str, member: str, expected: Any
) -> None:
    world.cluster()
    done = update_cluster(world, **change)
    assert (done["type"], done["status"]) == (update_type, "Successful")
    assert world.describe()[member] == expected


def test_the_endpoint_can_be_switched_to_private_and_back_to_public(world: World) -> None:
    world.cluster()
    assert update_cluster(world, resourcesVpcConfig={"endpointPublicAccess": False})["type"] == "EndpointAccessUpdate"
    vpc = world.describe()["resourcesVpcConfig"]
    assert (vpc["endpointPublicAccess"], vpc["publicAccessCidrs"]) == (False, [])
    update_cluster(world, resourcesVpcConfig={"endpointPublicAccess": True, "publicAccessCidrs": ["198.51.100.7/32"]})
    assert world.describe()["resourcesVpcConfig"]["publicAccessCidrs"] == ["198.51.100.7/32"]


def test_changing_the_subnets_moves_the_network_interfaces(world: World) -> None:
    world.cluster()
    other_subnets = [world.subnet(10 + index, zone) for index, zone in enumerate("abc")]
    assert update_cluster(world, resourcesVpcConfig={"subnetIds": other_subnets})["type"] == "VpcConfigUpdate"
    assert {interface["SubnetId"] for interface in list_interfaces(world)} == set(other_subnets)


def test_access_entries_can_be_enabled_and_then_include_the_creator(world: World) -> None:
    world.cluster(accessConfig={"authenticationMode": "CONFIG_MAP"})
    update_cluster(world, accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"})
    assert world.eks.list_access_entries(clusterName="demo")["accessEntries"] == [USER_ARN]
    update_cluster(world, accessConfig={"authenticationMode": "API"})
    assert world.describe()["accessConfig"]["authenticationMode"] == "API"


def test_secrets_encryption_can_be_enabled_later(world: World) -> None:
    world.cluster()
    config = [{"resources": ["secrets"], "provider": {"keyArn": world.key()}}]
    started = world.eks.associate_encryption_config(clusterName="demo", encryptionConfig=config)["update"]
    assert world.eks.describe_update(name="demo", updateId=started["id"])["update"]["status"] == "Successful"
    assert world.describe()["encryptionConfig"] == config


def test_a_cluster_version_can_be_upgraded_by_only_one_minor_version(world: World) -> None:
    before = world.cluster(version="1.33")["platformVersion"]
    for version in ("1.34", "1.35"):
        started = world.eks.update_cluster_version(name="demo", version=version)["update"]
        assert (started["type"], started["status"]) == ("VersionUpdate", "InProgress")
        assert world.describe()["version"] == version
    assert world.describe()["platformVersion"] != before
    assert len(world.eks.list_updates(name="demo")["updateIds"]) == 2


def test_a_cluster_accepts_only_one_update_at_a_time(world: World) -> None:
    world.cluster()
    durations.set_factor(1)
    started = world.eks.update_cluster_config(name="demo", deletionProtection=True)["update"]
    assert world.describe()["status"] == "UPDATING"
    with pytest.raises(ClientError) as refused:
        world.eks.update_cluster_version(name="demo", version="1.36")
    assert refused.value.response["Error"]["Code"] == "ResourceInUseException"
    assert started["id"] in str(refused.value)


def test_deletion_protection_is_enforced_until_disabled(world: World) -> None:
    world.cluster(deletionProtection=True)
    with pytest.raises(ClientError, match="InvalidRequestException"):
        world.eks.delete_cluster(name="demo")
    update_cluster(world, deletionProtection=False)
    world.eks.delete_cluster(name="demo")
    assert world.eks.list_clusters()["clusters"] == []


# --- versions


def test_cluster_versions_include_their_support_dates(world: World) -> None:
    versions = {item["clusterVersion"]: item for item in world.eks.describe_cluster_versions()["clusterVersions"]}
    assert list(versions) == ["1.36", "1.35", "1.34", "1.33", "1.32", "1.31"]
    assert [name for name, item in versions.items() if item["defaultVersion"]] == ["1.35"]
    assert versions["1.35"]["versionStatus"] == "STANDARD_SUPPORT"
    assert versions["1.33"]["versionStatus"] == "EXTENDED_SUPPORT"
    assert versions["1.34"]["endOfStandardSupportDate"].date().isoformat() == "2026-12-02"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"defaultOnly": True}, ["1.35"]),
        ({"includeAll": True}, ["1.36", "1.35", "1.34", "1.33", "1.32", "1.31", "1.30"]),
        ({"clusterVersions": ["1.30", "1.34"]}, ["1.34", "1.30"]),
        ({"versionStatus": "UNSUPPORTED"}, ["1.30"]),
        ({"status": "extended-support"}, ["1.33", "1.32", "1.31"]),
    ],
    ids=str,
)
def test_cluster_versions_can_be_filtered(world: World, filters: dict[str, Any], expected: list[str]) -> None:
    assert [item["clusterVersion"] for item in world.eks.describe_cluster_versions(**filters)["clusterVersions"]] == expected


# --- time


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def advance_minutes(self, minutes: float) -> None:
        self.seconds += 60 * minutes


def test_with_delay_factor_1_a_control_plane_takes_9_minutes_and_nodes_2_5_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(durations, "now", clock)
    durations.set_factor(1)
    world.eks.create_cluster(**world.build_cluster_request())
    clock.advance_minutes(8.9)
    assert world.describe()["status"] == "CREATING"
    with pytest.raises(ClientError, match="is not in ACTIVE status"):
        world.eks.create_addon(clusterName="demo", addonName="vpc-cni")
    clock.advance_minutes(0.2)
    assert world.describe()["status"] == "ACTIVE"
    world.eks.create_nodegroup(**world.build_node_group_request())
    world.eks.create_addon(clusterName="demo", addonName="coredns")
    clock.advance_minutes(1)
    assert world.eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"] == "DEGRADED"
    assert world.describe_node_group()["status"] == "CREATING"
    clock.advance_minutes(2)
    assert world.describe_node_group()["status"] == "ACTIVE"
    assert world.eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"] == "ACTIVE"


# --- tags, lists and the server


def test_list_clusters_is_paginated(world: World) -> None:
    for name in ("a", "b", "c"):
        world.cluster(name)
    pages = world.eks.get_paginator("list_clusters").paginate(PaginationConfig={"PageSize": 2})
    assert [page["clusters"] for page in pages] == [["a", "b"], ["c"]]


def test_the_server_creates_updates_and_deletes_a_cluster(server: LocalAws) -> None:
    world = World(lambda service: server.client(service))
    arn = world.cluster()["arn"]
    world.eks.tag_resource(resourceArn=arn, tags={"team": "mpi"})
    assert world.eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"team": "mpi"}
    world.eks.create_access_entry(clusterName="demo", principalArn=world.admin_role)
    assert world.eks.describe_access_entry(clusterName="demo", principalArn=world.admin_role)["accessEntry"]["type"] == "STANDARD"
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    named = {"clusterName": "demo", "principalArn": world.admin_role}
    world.eks.associate_access_policy(**named, policyArn=policy, accessScope={"type": "cluster"})
    world.eks.disassociate_access_policy(**named, policyArn=policy)
    assert update_cluster(world, deletionProtection=True)["status"] == "Successful"
    with pytest.raises(ClientError, match="deletion protection"):
        world.eks.delete_cluster(name="demo")


def test_a_zone_without_eks_is_refused_and_the_error_lists_the_other_zones(aws: Client) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""
    world = World(lambda service: aws(service, "us-east-1"), region="us-east-1")
    zones = world.ec2.describe_availability_zones()["AvailabilityZones"]
    [without] = [zone["ZoneName"] for zone in zones if zone["ZoneId"] == "use1-az3"]
    subnet = world.subnet(50, without[-1])
    with pytest.raises(ClientError) as refused:
        world.eks.create_cluster(**world.build_cluster_request(vpc={"subnetIds": [subnet, *world.subnets]}))
    error = refused.value.response
    assert error["Error"]["Code"] == "UnsupportedAvailabilityZoneException"
    assert f"Cannot create cluster 'demo' because {without}" in error["Error"]["Message"]
    assert without not in error["validZones"]


OFF: dict[str, Any] = {
    "computeConfig": {"enabled": False},
    "storageConfig": {"blockStorage": {"enabled": False}},
    "kubernetesNetworkConfig": {"elasticLoadBalancing": {"enabled": False}},
}
"""The official provider sends these settings for every cluster without EKS Auto Mode."""


@pytest.mark.parametrize("settings", [OFF, {"zonalShiftConfig": {"enabled": False}}, {"computeConfig": {"nodePools": []}}])
def test_a_cluster_can_disable_features_that_local_eks_does_not_emulate(world: World, settings: dict[str, Any]) -> None:
    created = world.cluster(**settings)
    assert created["kubernetesNetworkConfig"]["elasticLoadBalancing"] == {"enabled": False}


def test_auto_mode_can_be_disabled_but_not_enabled(world: World) -> None:
    world.cluster()
    update = world.eks.update_cluster_config(name="demo", **OFF)["update"]
    assert (update["type"], update["errors"]) == ("AutoModeUpdate", [])
    with pytest.raises(ClientError, match="computeConfig"):
        world.eks.update_cluster_config(name="demo", **{**OFF, "computeConfig": {"enabled": True}})
