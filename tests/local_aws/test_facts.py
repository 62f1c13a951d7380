"""The program reads an account's facts from the local AWS through AWS's public API, including facts that moto lacks."""

import json
from typing import Any

import pytest

from infra.facts.gather import gather_facts
from infra.facts.model import CapacityReservation, ExistingPool, FactsError, OwnVpc
from infra.naming import ADDONS
from infra.settings.stack import Settings
from localcloud.aws.account import ACCOUNT, USER_ARN
from localcloud.aws.permissions import organization
from testkit.aws_clients import REGION, Client
from testkit.eks_world import NODE_ACTIONS, World, make_allow_policy
from testkit.routes import add_nat_gateway
from tests.pure.world import load_settings

pytestmark = pytest.mark.usefixtures("account_credentials")


def settings(*pools: dict[str, Any], stack: str = "test", **sections: Any) -> Settings:
    return load_settings({"target": {"kind": "eks"}, "pools": list(pools), **sections}, stack=stack, region=REGION)


def test_the_facts_for_a_new_stack_are_queried_from_aws(aws: Client) -> None:
    facts = gather_facts(settings({"name": "train", "instanceType": "p5.48xlarge", "maxSize": 2}))
    assert facts.caller.principal_arn == USER_ARN
    assert "1.35" in facts.kubernetes_versions
    assert facts.addon_versions.keys() == set(ADDONS)
    assert facts.addon_versions["kube-proxy"].default == "v1.35.3-eksbuild.29"
    assert facts.addon_versions["kube-proxy"].offered == {"v1.35.3-eksbuild.29", "v1.34.6-eksbuild.29"}
    assert facts.instance_types["p5.48xlarge"].efa_maximum == 32
    assert facts.existing.cluster_version is None


def test_permission_to_list_add_ons_is_needed_only_for_an_existing_cluster(aws: Client) -> None:
    organization.deny_action("eks:ListAddons")
    organization.deny_action("eks:DescribeAddon")
    assert gather_facts(settings()).existing.cluster_version is None
    World(aws).cluster("gpumpi-test")
    with pytest.raises(FactsError, match="may not call eks:ListAddons, which planning requires"):
        gather_facts(settings())


LOGS = "/aws/eks/gpumpi-test/cluster"


def test_a_log_group_without_a_key_counts_as_left_over_from_a_deleted_cluster(aws: Client) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName=f"{LOGS}-of-another")
    assert not gather_facts(settings()).existing.has_leftover_logs
    logs.create_log_group(logGroupName=LOGS)
    assert gather_facts(settings()).existing.has_leftover_logs


def test_a_log_group_with_a_key_or_a_cluster_does_not_count_as_left_over(aws: Client) -> None:
    logs, kms = aws("logs"), aws("kms")
    users = {"AWS": f"arn:aws:iam::{ACCOUNT}:root", "Service": f"logs.{REGION}.amazonaws.com"}
    statement = {"Effect": "Allow", "Principal": users, "Action": "kms:*", "Resource": "*"}
    key = kms.create_key(Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))["KeyMetadata"]["Arn"]
    logs.create_log_group(logGroupName=LOGS, kmsKeyId=key)
    assert not gather_facts(settings()).existing.has_leftover_logs
    logs.delete_log_group(logGroupName=LOGS)
    logs.create_log_group(logGroupName=LOGS)
    World(aws).cluster("gpumpi-test")
    assert not gather_facts(settings()).existing.has_leftover_logs


def test_existing_reservations_and_placement_groups_are_found(aws: Client) -> None:
    client = aws("ec2")
    client.create_placement_group(GroupName="own", Strategy="cluster")
    reservation = client.create_capacity_reservation(
        InstanceType="p5.48xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=f"{REGION}b",
        InstanceCount=4,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]
    id = reservation["CapacityReservationId"]
    gone = "cr-0123456789abcdef0"
    facts = gather_facts(
        settings(
            {"name": "a", "instanceType": "g5.8xlarge", "maxSize": 2, "placementGroup": "own"},
            {"name": "b", "instanceType": "g5.8xlarge", "maxSize": 2, "placementGroup": "theirs"},
            _build_reserved_pool("c", id),
            _build_reserved_pool("d", gone),
        )
    )
    assert facts.placement_groups == {"own": "cluster"}
    assert facts.reservations == {
        id: CapacityReservation(id, "default", "active", "p5.48xlarge", f"{REGION}b", 4, 4, start=reservation["StartDate"]),
    }
    assert facts.not_found == {"theirs", gone}


def _build_reserved_pool(name: str, reservation: str) -> dict[str, Any]:
    capacity = {"kind": "targeted-odcr", "reservationId": reservation}
    return {"name": name, "instanceType": "p5.48xlarge", "maxSize": 2, "capacity": capacity}


def test_resources_of_a_stack_are_found_by_their_tags(aws: Client) -> None:
    ec2, eks, iam = aws("ec2"), aws("eks"), aws("iam")
    tag = {"Key": "gpumpi:stack", "Value": "up"}
    vpc_tags = [{"ResourceType": "vpc", "Tags": [tag]}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=vpc_tags)["Vpc"]["VpcId"]
    tags = [{"ResourceType": "subnet", "Tags": [tag]}]
    subnets = [
        ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{letter}", TagSpecifications=tags
        )["Subnet"]["SubnetId"]
        for number, letter in enumerate("cb")
    ]
    role = _create_role(iam, "cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    add_nat_gateway(ec2, vpc, "10.0.255.0/24", f"{REGION}b")
    node_role = _create_role(iam, "node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy")
    iam.put_role_policy(RoleName="node", PolicyName="joins", PolicyDocument=make_allow_policy(*NODE_ACTIONS))
    eks.create_cluster(name="gpumpi-up", version="1.35", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
    eks.create_nodegroup(
        clusterName="gpumpi-up",
        nodegroupName="gpumpi-up-train-1234567",
        nodeRole=node_role,
        subnets=subnets[:1],
        instanceTypes=["g5.xlarge"],
        amiType="AL2023_x86_64_NVIDIA",
        scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 3},
        tags={"gpumpi:pool": "train"},
    )
    existing = gather_facts(settings(stack="up")).existing
    assert existing.support_type == "EXTENDED"
    assert (existing.cluster_version, existing.zones) == ("1.35", (f"{REGION}b", f"{REGION}c"))
    assert existing.pools == {
        "train": ExistingPool(
            f"{REGION}c",
            0,
            1,
            3,
            zones=(f"{REGION}c",),
            subnet_ids=frozenset(subnets[:1]),
            instance_type="g5.xlarge",
            node_group="gpumpi-up-train-1234567",
            version="1.35",
        )
    }
    assert (existing.cluster_vpc_id, existing.cluster_zones) == (vpc, (f"{REGION}b", f"{REGION}c"))
    assert existing.own_vpc == OwnVpc(vpc, "10.0.0.0/16")


def _create_role(iam: Any, name: str, service: str, policy: str) -> str:
    allowed = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    iam.attach_role_policy(RoleName=name, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
    return arn


def test_the_join_time_limit_of_workers_is_read_from_their_auto_scaling_group(aws: Client) -> None:
    ec2, autoscaling = aws("ec2"), aws("autoscaling")
    image = ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"][0][
        "ImageId"
    ]
    data = {"InstanceType": "g6.48xlarge", "ImageId": image}
    template = ec2.create_launch_template(LaunchTemplateName="workers", LaunchTemplateData=data)["LaunchTemplate"]
    subnet = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": [f"{REGION}a"]}])["Subnets"][0]["SubnetId"]
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName="workers",
        LaunchTemplate={"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"},
        MinSize=0,
        MaxSize=4,
        VPCZoneIdentifier=subnet,
        LifecycleHookSpecificationList=[
            {
                "LifecycleHookName": "join",
                "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                "HeartbeatTimeout": 900,
                "DefaultResult": "ABANDON",
            }
        ],
        Tags=[
            {"Key": key, "Value": value, "PropagateAtLaunch": True}
            for key, value in (("gpumpi:stack", "plain"), ("gpumpi:pool", "workers"))
        ],
    )
    values = {"target": {"kind": "ec2"}, "pools": [{"name": "workers", "instanceType": "g6.48xlarge", "maxSize": 4}]}
    facts = gather_facts(load_settings(values, stack="plain", region=REGION))
    assert facts.existing.pools["workers"].join_seconds == 900
