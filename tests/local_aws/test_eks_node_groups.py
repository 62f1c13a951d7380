"""Managed node groups: the resources that EKS creates for them, and complete deletion."""

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import events
from localcloud.aws.ec2 import capacity_reservations, instance_types
from testkit.aws_clients import REGION, Client, LocalAws
from testkit.eks_world import CLUSTER_DETAILS, World, find_eks_ami, list_health_issues

GPU = "g5.xlarge"


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def encode_mime(kind: str, text: str) -> str:
    """Return base64-encoded user data with one MIME part, as in a launch template."""
    document = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: {kind}\n\n{text}\n--b--\n'
    return base64.b64encode(document.encode()).decode()


def test_a_node_group_is_creating_first_and_then_active_with_instances(world: World) -> None:
    created = world.eks.create_nodegroup(**world.build_node_group_request())["nodegroup"]
    assert created["status"] == "CREATING"
    group = world.describe_node_group()
    assert group["status"] == "ACTIVE"
    assert [instance["State"]["Name"] for instance in world.instances(group)] == ["running"]


def test_a_node_group_with_defaults_matches_the_eks_defaults(world: World) -> None:
    group = world.node_group(scalingConfig=None)
    assert group["scalingConfig"] == {"minSize": 1, "maxSize": 2, "desiredSize": 2}
    assert group["instanceTypes"] == ["t3.medium"]
    assert group["amiType"] == "AL2023_x86_64_STANDARD"
    assert (group["version"], group["releaseVersion"]) == ("1.35", "1.35.6-20260714")
    assert group["capacityType"] == "ON_DEMAND"
    assert group["diskSize"] == 20
    assert group["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "DEFAULT"}
    assert "launchTemplate" not in group


def test_an_arm_instance_type_gets_an_arm_image(world: World) -> None:
    assert world.node_group(instanceTypes=["m7g.large"])["amiType"] == "AL2023_ARM_64_STANDARD"


def test_a_node_group_has_its_requested_settings(world: World) -> None:
    settings: dict[str, Any] = {
        "labels": {"gpumpi.io/pool": "train"},
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        "tags": {"cost-center": "research"},
        "updateConfig": {"maxUnavailablePercentage": 50, "updateStrategy": "MINIMAL"},
        "nodeRepairConfig": {"enabled": True, "maxParallelNodesRepairedCount": 1},
    }
    group = world.node_group(**settings)
    assert {name: group[name] for name in settings} == settings


def test_the_auto_scaling_group_matches_the_one_that_eks_creates(world: World) -> None:
    group = world.node_group(subnets=world.subnets[:2], scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 2})
    scaling = world.auto_scaling_group()
    uuid = group["nodegroupArn"].rsplit("/", 1)[-1]
    assert scaling["AutoScalingGroupName"] == f"eks-workers-{uuid}"
    assert (scaling["MinSize"], scaling["MaxSize"], scaling["DesiredCapacity"]) == (0, 4, 2)
    assert scaling["VPCZoneIdentifier"] == ",".join(world.subnets[:2])
    assert {tag["Key"]: tag["Value"] for tag in scaling["Tags"] if tag["PropagateAtLaunch"]} == {
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/demo": "owned",
        "kubernetes.io/cluster/demo": "owned",
        "eks:cluster-name": "demo",
        "eks:nodegroup-name": "workers",
    }
    assert {instance["SubnetId"] for instance in world.instances(group)} == set(world.subnets[:2])


def test_instances_get_the_image_profile_security_group_and_user_data_of_eks(world: World) -> None:
    cluster, group = world.describe(), world.node_group(instanceTypes=[GPU], amiType="AL2023_x86_64_NVIDIA")
    [instance] = world.instances(group)
    parameter = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    assert instance["ImageId"] == world.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    uuid = group["nodegroupArn"].rsplit("/", 1)[-1]
    assert instance["IamInstanceProfile"]["Arn"].endswith(f":instance-profile/eks-{uuid}")
    assert [item["GroupId"] for item in instance["SecurityGroups"]] == [cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]]
    text = world.user_data(instance["InstanceId"])
    assert cluster["endpoint"] in text
    assert "Content-Type: application/node.eks.aws" in text


def test_eks_extends_the_launch_template_of_the_node_group(world: World) -> None:
    extra, cluster_group = world.security_group(), world.describe()["resourcesVpcConfig"]["clusterSecurityGroupId"]
    user_data = encode_mime("text/x-shellscript", "#!/bin/sh\necho mine\n")
    template = world.template(
        SecurityGroupIds=[cluster_group, extra],
        UserData=user_data,
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 120, "VolumeType": "gp3", "Encrypted": True}}],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "mpi"}]}],
    )
    group = world.node_group(launchTemplate=template, instanceTypes=["m7i.large"])
    assert group["launchTemplate"] == {**template, "name": "user"}
    assert "diskSize" not in group
    [instance] = world.instances(group)
    assert {item["GroupId"] for item in instance["SecurityGroups"]} == {cluster_group, extra}
    assert {"Key": "team", "Value": "mpi"} in instance["Tags"]
    assert {"Key": "eks:nodegroup-name", "Value": "workers"} in instance["Tags"]
    text = world.user_data(instance["InstanceId"])
    assert text.index("echo mine") < text.index("apiServerEndpoint")
    volumes = world.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance["InstanceId"]]}])
    assert [volume["Size"] for volume in volumes["Volumes"]] == [120]


def test_the_instance_type_can_come_from_the_launch_template(world: World) -> None:
    group = world.node_group(launchTemplate=world.template(InstanceType="m7i.xlarge"))
    assert "instanceTypes" not in group
    assert [instance["InstanceType"] for instance in world.instances(group)] == ["m7i.xlarge"]


def test_a_node_with_a_custom_ami_joins_through_its_own_user_data(world: World) -> None:
    image = find_eks_ami()
    config = json.dumps({"spec": {"cluster": CLUSTER_DETAILS}})
    user_data = encode_mime("application/node.eks.aws", config)
    template = world.template(ImageId=image, UserData=user_data)
    group = world.node_group(launchTemplate=template)
    assert (group["status"], group["amiType"], group["releaseVersion"]) == ("ACTIVE", "CUSTOM", image)
    assert [instance["ImageId"] for instance in world.instances(group)] == [image]


def test_a_spot_node_group_launches_spot_instances(world: World) -> None:
    group = world.node_group(capacityType="SPOT", instanceTypes=["m7i.large", "m6i.large"])
    assert [instance["InstanceLifecycle"] for instance in world.instances(group)] == ["spot"]


def test_a_capacity_block_node_group_runs_in_its_block(world: World) -> None:
    zone = instance_types.find_offered_zones(REGION)["p5.48xlarge"][0]
    block = capacity_reservations.seed_reservation("p5.48xlarge", zone, 2, kind="capacity-block")
    template = world.template(
        InstanceType="p5.48xlarge",
        InstanceMarketOptions={"MarketType": "capacity-block"},
        CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": block}},
    )
    subnet = world.subnet(9, zone[-1])
    settings = {"capacityType": "CAPACITY_BLOCK", "amiType": "AL2023_x86_64_NVIDIA", "subnets": [subnet]}
    group = world.node_group(launchTemplate=template, **settings, scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 2})
    assert (group["status"], list_health_issues(group)) == ("ACTIVE", [])
    assert [instance["CapacityReservationId"] for instance in world.instances(group)] == [block, block]

    named = {"clusterName": "demo", "nodegroupName": "workers"}
    with pytest.raises(
        ClientError, match=r"InvalidRequestException.*desired size of a node group with Capacity Blocks must be 0"
    ):
        world.eks.update_nodegroup_version(**named)
    world.eks.update_nodegroup_config(**named, scalingConfig={"minSize": 0, "desiredSize": 0})
    world.eks.describe_nodegroup(**named)
    world.eks.update_nodegroup_version(**named)


def test_the_node_role_gets_an_access_entry_for_nodes(world: World) -> None:
    world.node_group()
    entry = world.eks.describe_access_entry(clusterName="demo", principalArn=world.node_role)["accessEntry"]
    assert (entry["type"], entry["username"]) == ("EC2_LINUX", "system:node:{{EC2PrivateDNSName}}")
    assert entry["kubernetesGroups"] == ["system:nodes"]


def test_a_node_group_of_size_zero_is_active_without_instances(world: World) -> None:
    group = world.node_group(scalingConfig={"minSize": 0, "maxSize": 8, "desiredSize": 0})
    assert (group["status"], world.instances(group)) == ("ACTIVE", [])


def test_emulators_receive_node_group_events(world: World) -> None:
    published: list[events.Event] = []
    unregister = events.register_realizer(published.append)
    try:
        world.node_group()
        world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
        world.eks.list_nodegroups(clusterName="demo")
    finally:
        unregister()
    heard = [event for event in published if event.kind == "node-group"]
    assert {event.name for event in heard} == {"demo/workers"}
    assert [event.action for event in heard] == ["created", "changed", "changed", "gone"]
    assert heard[1].details["status"] == "ACTIVE"


# --- the end


def test_a_deleted_node_group_leaves_nothing_behind(world: World) -> None:
    world.node_group()
    before = world.list_instance_ids()
    assert world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")["nodegroup"]["status"] == "DELETING"
    assert world.eks.list_nodegroups(clusterName="demo")["nodegroups"] == []
    assert world.autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []
    assert world.ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert world.client("iam").list_instance_profiles()["InstanceProfiles"] == []
    states = world.ec2.describe_instances(InstanceIds=list(before))["Reservations"][0]["Instances"]
    assert {instance["State"]["Name"] for instance in states} == {"terminated"}
    world.eks.delete_cluster(name="demo")
    assert world.eks.list_clusters()["clusters"] == []


def test_a_role_in_use_by_a_node_group_cannot_be_deleted(world: World) -> None:
    world.node_group()
    with pytest.raises(ClientError, match="DeleteConflict"):
        world.client("iam").delete_role(RoleName="node")


def test_the_server_creates_resizes_and_deletes_a_node_group(server: LocalAws) -> None:
    world = World(lambda service: server.client(service))
    world.cluster()
    group = world.node_group()
    assert (group["status"], len(world.instances(group))) == ("ACTIVE", 1)
    world.eks.tag_resource(resourceArn=group["nodegroupArn"], tags={"team": "mpi"})
    assert world.eks.list_tags_for_resource(resourceArn=group["nodegroupArn"])["tags"] == {"team": "mpi"}
    assert world.update_config(scalingConfig={"desiredSize": 2})["status"] == "Successful"
    assert len(world.list_instance_ids()) == 2
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    with pytest.raises(ClientError, match="No node group found for name: workers"):
        world.describe_node_group()
