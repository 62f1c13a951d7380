"""Effect of pool settings on node groups and launch templates: interfaces, disks, user data, images, labels, tags."""

import pytest

from infra.naming import AUTOSCALER_TAG
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.program.pool_world import deploy_pool, find_launch_template, find_node_group, parse_user_data, read_group_tags
from tests.pure import world

TEMPLATE_TAG = f"{AUTOSCALER_TAG}/node-template"
CLUSTER_GROUP, NODES_GROUP = "sg-cluster", "gpumpi-test-nodes-id"


@pytest.fixture(scope="module")
def pool_without_efa() -> Deployment:
    return deploy_pool("g5.xlarge")


@pytest.fixture(scope="module")
def efa_pool() -> Deployment:
    return deploy_pool("p4d.24xlarge")


# --- pods


@pytest.mark.parametrize(
    ("instance_type", "efa", "flags"),
    [("p5.48xlarge", None, ["--max-pods=51"]), ("p5e.48xlarge", None, ["--max-pods=51"]), ("p5.48xlarge", False, None)],
)
def test_max_pods_is_limited_if_a_node_has_too_few_pod_addresses(
    instance_type: str, efa: bool | None, flags: list[str] | None
) -> None:
    stack = deploy_pool(instance_type, **({} if efa is None else {"efa": efa}))
    assert parse_user_data(stack)[0].get("kubelet", {}).get("flags") == flags


# --- interfaces and security groups


@pytest.mark.parametrize(
    ("instance_type", "plain_interfaces", "efa_interfaces"),
    [("g5.8xlarge", 1, 1), ("p4d.24xlarge", 1, 4), ("p5.48xlarge", 1, 32), ("p6-b300.48xlarge", 1, 16)],
)
def test_a_node_has_the_network_interfaces_of_its_instance_type(
    instance_type: str, plain_interfaces: int, efa_interfaces: int
) -> None:
    kinds = [interface["interfaceType"] for interface in find_launch_template(deploy_pool(instance_type))["networkInterfaces"]]
    assert (kinds.count("interface"), kinds.count("efa-only")) == (plain_interfaces, efa_interfaces)


def test_every_interface_has_the_cluster_and_the_node_security_group(efa_pool: Deployment) -> None:
    for interface in find_launch_template(efa_pool)["networkInterfaces"]:
        assert interface["securityGroups"] == [CLUSTER_GROUP, NODES_GROUP]
    assert "vpcSecurityGroupIds" not in find_launch_template(efa_pool), (
        "EC2 rejects security groups on both the instance and its interfaces"
    )


def test_a_node_without_efa_has_its_security_groups_on_the_instance(pool_without_efa: Deployment) -> None:
    assert find_launch_template(pool_without_efa)["vpcSecurityGroupIds"] == [CLUSTER_GROUP, NODES_GROUP]
    assert "networkInterfaces" not in find_launch_template(pool_without_efa)


def test_efa_can_be_disabled_on_an_instance_type_with_efa() -> None:
    without = deploy_pool("p4d.24xlarge", efa=False)
    assert "networkInterfaces" not in find_launch_template(without)
    assert "vpc.amazonaws.com/efa.present" not in find_node_group(without).inputs["labels"]
    assert without.find_resources(engine.PLACEMENT_GROUP) == []


@pytest.mark.parametrize("forbidden", ["subnetId", "associatePublicIpAddress"])
def test_interfaces_set_no_field_that_eks_or_ec2_rejects(efa_pool: Deployment, forbidden: str) -> None:
    assert not [interface for interface in find_launch_template(efa_pool)["networkInterfaces"] if forbidden in interface]


@pytest.mark.parametrize("forbidden", ["iamInstanceProfile", "instanceInitiatedShutdownBehavior", "keyName", "instanceType"])
def test_a_launch_template_sets_no_field_that_eks_rejects(efa_pool: Deployment, forbidden: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"""
    assert forbidden not in find_launch_template(efa_pool)


# --- disks, metadata, boot


@pytest.mark.parametrize("name", ["train", "system"])
def test_disks_are_encrypted_and_imds_is_limited_to_the_host(efa_pool: Deployment, name: str) -> None:
    inputs = efa_pool.find_resource(engine.LAUNCH_TEMPLATE, name).inputs
    (disk,) = inputs["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert (disk["ebs"]["volumeType"], disk["ebs"]["encrypted"], disk["ebs"]["deleteOnTermination"]) == ("gp3", "true", "true")
    assert inputs["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}


@pytest.mark.parametrize("name", ["train", "system"])
def test_launched_resources_have_the_tags_of_the_pool(efa_pool: Deployment, name: str) -> None:
    specifications = {
        spec["resourceType"]: spec["tags"]
        for spec in efa_pool.find_resource(engine.LAUNCH_TEMPLATE, name).inputs["tagSpecifications"]
    }
    assert set(specifications) == {"instance", "volume", "network-interface"}
    for tags in specifications.values():
        assert tags["gpumpi:stack"] == "test" and tags["gpumpi:pool"] == name and tags["cost-center"] == "test"


def test_the_root_volume_has_the_configured_size() -> None:
    assert find_launch_template(deploy_pool(rootVolumeGib=300))["blockDeviceMappings"][0]["ebs"]["volumeSize"] == 300


def test_local_disks_are_striped_if_the_instance_type_has_any(efa_pool: Deployment) -> None:
    assert parse_user_data(efa_pool)[0]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in parse_user_data(efa_pool, "system")[0]


def test_containers_have_a_memlock_limit_only_on_gpu_nodes(efa_pool: Deployment) -> None:
    limits = parse_user_data(efa_pool)[0]["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert "RLIMIT_MEMLOCK" in [limit["type"] for limit in limits]
    assert parse_user_data(efa_pool, "system") == [{}]


def test_huge_pages_are_reserved_on_efa_nodes(efa_pool: Deployment, pool_without_efa: Deployment) -> None:
    assert "vm.nr_hugepages = 5128" in parse_user_data(efa_pool)[1]
    assert len(parse_user_data(pool_without_efa)) == 1


# --- images


@pytest.mark.parametrize(
    ("instance_type", "ami_type"), [("g5.8xlarge", "AL2023_x86_64_NVIDIA"), ("g5g.8xlarge", "AL2023_ARM_64_NVIDIA")]
)
def test_a_gpu_pool_uses_the_eks_nvidia_ami_for_its_architecture(instance_type: str, ami_type: str) -> None:
    assert find_node_group(deploy_pool(instance_type)).inputs["amiType"] == ami_type


@pytest.mark.parametrize(
    ("instance_type", "ami_type"), [("m7i.large", "AL2023_x86_64_STANDARD"), ("m7g.large", "AL2023_ARM_64_STANDARD")]
)
def test_the_system_pool_uses_the_standard_eks_ami_for_its_architecture(instance_type: str, ami_type: str) -> None:
    settings = world.settings(target={"system": {"instanceType": instance_type}})
    system = deploy(settings, world.account_facts(settings)).find_resource(engine.NODE_GROUP, "system").inputs
    assert system["amiType"] == ami_type and system["instanceTypes"] == [instance_type]


def test_a_custom_ami_gets_cluster_labels_and_taints_in_user_data() -> None:
    own = deploy_pool(amiId=world.IMAGE)
    assert find_launch_template(own)["imageId"] == world.IMAGE
    assert not {"amiType", "version"} & set(find_node_group(own).inputs), "EKS rejects amiType and version with a custom AMI"
    config = parse_user_data(own)[0]
    assert config["cluster"] == {
        "name": "gpumpi-test",
        "apiServerEndpoint": "https://mock.eks.amazonaws.com",
        "certificateAuthority": "Y2E=",
        "cidr": "172.20.0.0/16",
    }
    assert "gpumpi.io/pool=train" in config["kubelet"]["flags"][0]
    assert config["kubelet"]["flags"][1] == "--register-with-taints=nvidia.com/gpu=true:NoSchedule"


# --- labels, taints, tags


def test_gpu_nodes_are_labeled_and_tainted(efa_pool: Deployment) -> None:
    assert find_node_group(efa_pool).inputs["labels"] == {
        "gpumpi.io/pool": "train",
        "nvidia.com/gpu.present": "true",
        "k8s.amazonaws.com/accelerator": "nvidia-a100",
        "vpc.amazonaws.com/efa.present": "true",
    }
    assert find_node_group(efa_pool).inputs["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


def test_system_nodes_have_no_taints(efa_pool: Deployment) -> None:
    assert "taints" not in efa_pool.find_resource(engine.NODE_GROUP, "system").inputs


def test_nodes_have_the_labels_configured_by_the_user() -> None:
    deployment = deploy_pool(labels={"team": "ml"})
    assert find_node_group(deployment).inputs["labels"]["team"] == "ml"
    assert read_group_tags(deployment)[f"{TEMPLATE_TAG}/label/team"] == "ml"


def test_autoscaling_group_tags_let_the_autoscaler_scale_up_from_zero(efa_pool: Deployment) -> None:
    expected = {
        f"{AUTOSCALER_TAG}/enabled": "true",
        f"{AUTOSCALER_TAG}/gpumpi-test": "owned",
        f"{TEMPLATE_TAG}/label/gpumpi.io/pool": "train",
        f"{TEMPLATE_TAG}/label/nvidia.com/gpu.present": "true",
        f"{TEMPLATE_TAG}/label/k8s.amazonaws.com/accelerator": "nvidia-a100",
        f"{TEMPLATE_TAG}/label/vpc.amazonaws.com/efa.present": "true",
        f"{TEMPLATE_TAG}/taint/nvidia.com/gpu": "true:NoSchedule",
        f"{TEMPLATE_TAG}/resources/nvidia.com/gpu": "8",
        f"{TEMPLATE_TAG}/resources/vpc.amazonaws.com/efa": "4",
        f"{TEMPLATE_TAG}/resources/hugepages-2Mi": "10256Mi",
        f"{TEMPLATE_TAG}/resources/ephemeral-storage": "6800G",
    }
    on_group = {key: value for key, value in read_group_tags(efa_pool).items() if key.startswith("k8s.io/")}
    on_node_group = {key: value for key, value in find_node_group(efa_pool).inputs["tags"].items() if key.startswith("k8s.io/")}
    assert on_group == expected and on_node_group == expected


def test_a_node_group_without_efa_has_no_efa_or_hugepages_tags(pool_without_efa: Deployment) -> None:
    assert not [key for key in read_group_tags(pool_without_efa) if "efa" in key or "hugepages" in key]


@pytest.mark.parametrize("name", ["train", "system"])
def test_an_auto_scaling_group_has_the_cost_tags(pool_without_efa: Deployment, name: str) -> None:
    tags = read_group_tags(pool_without_efa, name)
    assert tags["gpumpi:stack"] == "test" and tags["cost-center"] == "test" and tags["gpumpi:pool"] == name


def test_instances_inherit_pool_tags_but_not_autoscaler_tags_from_the_group(efa_pool: Deployment) -> None:
    tags = [tag.inputs["tag"] for tag in efa_pool.find_resources(engine.GROUP_TAG, "-train-tag-")]
    copied = {tag["key"] for tag in tags if tag["propagateAtLaunch"]}
    assert copied == {"Name", "gpumpi:stack", "gpumpi:pool", "cost-center", "managed-by"}


def test_a_changed_tag_creates_no_new_launch_template_version(efa_pool: Deployment) -> None:
    """A new launch template version would make EKS replace all nodes."""
    assert {template.ignored_changes for template in efa_pool.find_resources(engine.LAUNCH_TEMPLATE)} == {("tagSpecifications",)}


def test_there_are_no_autoscaler_tags_without_the_autoscaler() -> None:
    deployment = deploy_pool(autoscaler=False)
    assert not [
        key for key in {**read_group_tags(deployment), **find_node_group(deployment).inputs["tags"]} if key.startswith("k8s.io/")
    ]
    assert not deployment.find_resources(engine.POD_IDENTITY, "autoscaler") and not deployment.find_by_name(
        "gpumpi-test-autoscaler"
    )
