"""Effect of pool settings on node groups and launch templates: interfaces, disks, user data, images, labels, tags."""

import pytest

from infra.naming import AUTOSCALER_TAG
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.program.pool_world import boot, group, group_tags, pool, template
from tests.pure import world

TEMPLATE_TAG = f"{AUTOSCALER_TAG}/node-template"
CLUSTER_GROUP, NODES_GROUP = "sg-cluster", "gpumpi-test-nodes-id"


@pytest.fixture(scope="module")
def plain() -> Deployment:
    return pool("g5.xlarge")


@pytest.fixture(scope="module")
def fabric() -> Deployment:
    return pool("p4d.24xlarge")


# --- pods


@pytest.mark.parametrize(
    ("instance_type", "efa", "flags"),
    [("p5.48xlarge", None, ["--max-pods=51"]), ("p5e.48xlarge", None, ["--max-pods=51"]), ("p5.48xlarge", False, None)],
)
def test_a_p5_accepts_only_pods_that_get_an_address(instance_type: str, efa: bool | None, flags: list[str] | None) -> None:
    stack = pool(instance_type, **({} if efa is None else {"efa": efa}))
    assert boot(stack)[0].get("kubelet", {}).get("flags") == flags


# --- interfaces and security groups


@pytest.mark.parametrize(
    ("instance_type", "plain_interfaces", "efa_interfaces"),
    [("g5.8xlarge", 1, 1), ("p4d.24xlarge", 1, 4), ("p5.48xlarge", 1, 32), ("p6-b300.48xlarge", 1, 16)],
)
def test_a_node_has_the_interfaces_of_its_type(instance_type: str, plain_interfaces: int, efa_interfaces: int) -> None:
    kinds = [interface["interfaceType"] for interface in template(pool(instance_type))["networkInterfaces"]]
    assert (kinds.count("interface"), kinds.count("efa-only")) == (plain_interfaces, efa_interfaces)


def test_every_interface_is_in_the_cluster_s_and_in_the_nodes_security_group(fabric: Deployment) -> None:
    for interface in template(fabric)["networkInterfaces"]:
        assert interface["securityGroups"] == [CLUSTER_GROUP, NODES_GROUP]
    assert "vpcSecurityGroupIds" not in template(fabric), "EC2 rejects security groups on both the instance and its interfaces"


def test_a_node_without_efa_has_the_groups_on_the_instance(plain: Deployment) -> None:
    assert template(plain)["vpcSecurityGroupIds"] == [CLUSTER_GROUP, NODES_GROUP]
    assert "networkInterfaces" not in template(plain)


def test_efa_can_be_disabled_on_a_type_that_has_it() -> None:
    without = pool("p4d.24xlarge", efa=False)
    assert "networkInterfaces" not in template(without)
    assert "vpc.amazonaws.com/efa.present" not in group(without).inputs["labels"]
    assert without.created(engine.PLACEMENT_GROUP) == []


@pytest.mark.parametrize("forbidden", ["subnetId", "associatePublicIpAddress"])
def test_interfaces_set_nothing_that_eks_or_ec2_rejects(fabric: Deployment, forbidden: str) -> None:
    assert not [interface for interface in template(fabric)["networkInterfaces"] if forbidden in interface]


@pytest.mark.parametrize("forbidden", ["iamInstanceProfile", "instanceInitiatedShutdownBehavior", "keyName", "instanceType"])
def test_a_launch_template_sets_nothing_that_eks_rejects(fabric: Deployment, forbidden: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"""
    assert forbidden not in template(fabric)


# --- disks, metadata, boot


@pytest.mark.parametrize("name", ["train", "system"])
def test_disks_are_encrypted_and_imds_is_limited_to_the_host(fabric: Deployment, name: str) -> None:
    inputs = fabric.only(engine.LAUNCH_TEMPLATE, name).inputs
    (disk,) = inputs["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert (disk["ebs"]["volumeType"], disk["ebs"]["encrypted"], disk["ebs"]["deleteOnTermination"]) == ("gp3", "true", "true")
    assert inputs["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}


@pytest.mark.parametrize("name", ["train", "system"])
def test_launched_resources_have_the_pool_s_tags(fabric: Deployment, name: str) -> None:
    specifications = {
        spec["resourceType"]: spec["tags"] for spec in fabric.only(engine.LAUNCH_TEMPLATE, name).inputs["tagSpecifications"]
    }
    assert set(specifications) == {"instance", "volume", "network-interface"}
    for tags in specifications.values():
        assert tags["gpumpi:stack"] == "test" and tags["gpumpi:pool"] == name and tags["cost-center"] == "test"


def test_the_root_volume_has_the_configured_size() -> None:
    assert template(pool(rootVolumeGib=300))["blockDeviceMappings"][0]["ebs"]["volumeSize"] == 300


def test_local_disks_are_striped_if_the_type_has_them(fabric: Deployment) -> None:
    assert boot(fabric)[0]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in boot(fabric, "system")[0]


def test_jobs_can_pin_memory_on_gpu_nodes_only(fabric: Deployment) -> None:
    limits = boot(fabric)[0]["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert "RLIMIT_MEMLOCK" in [limit["type"] for limit in limits]
    assert boot(fabric, "system") == [{}]


def test_huge_pages_are_reserved_on_efa_nodes(fabric: Deployment, plain: Deployment) -> None:
    assert "vm.nr_hugepages = 5128" in boot(fabric)[1]
    assert len(boot(plain)) == 1


# --- images


@pytest.mark.parametrize(
    ("instance_type", "ami_type"), [("g5.8xlarge", "AL2023_x86_64_NVIDIA"), ("g5g.8xlarge", "AL2023_ARM_64_NVIDIA")]
)
def test_a_gpu_pool_uses_the_eks_nvidia_ami_of_its_architecture(instance_type: str, ami_type: str) -> None:
    assert group(pool(instance_type)).inputs["amiType"] == ami_type


@pytest.mark.parametrize(
    ("instance_type", "ami_type"), [("m7i.large", "AL2023_x86_64_STANDARD"), ("m7g.large", "AL2023_ARM_64_STANDARD")]
)
def test_the_system_pool_uses_the_standard_eks_ami_of_its_architecture(instance_type: str, ami_type: str) -> None:
    settings = world.settings(target={"system": {"instanceType": instance_type}})
    system = deploy(settings, world.facts(settings)).only(engine.NODE_GROUP, "system").inputs
    assert system["amiType"] == ami_type and system["instanceTypes"] == [instance_type]


def test_a_custom_ami_gets_cluster_labels_and_taints_in_user_data() -> None:
    own = pool(amiId=world.IMAGE)
    assert template(own)["imageId"] == world.IMAGE
    assert not {"amiType", "version"} & set(group(own).inputs), "EKS rejects amiType and version with a custom AMI"
    config = boot(own)[0]
    assert config["cluster"] == {
        "name": "gpumpi-test",
        "apiServerEndpoint": "https://mock.eks.amazonaws.com",
        "certificateAuthority": "Y2E=",
        "cidr": "172.20.0.0/16",
    }
    assert "gpumpi.io/pool=train" in config["kubelet"]["flags"][0]
    assert config["kubelet"]["flags"][1] == "--register-with-taints=nvidia.com/gpu=true:NoSchedule"


# --- labels, taints, tags


def test_gpu_nodes_are_labeled_and_tainted(fabric: Deployment) -> None:
    assert group(fabric).inputs["labels"] == {
        "gpumpi.io/pool": "train",
        "nvidia.com/gpu.present": "true",
        "k8s.amazonaws.com/accelerator": "nvidia-a100",
        "vpc.amazonaws.com/efa.present": "true",
    }
    assert group(fabric).inputs["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


def test_system_nodes_have_no_taints(fabric: Deployment) -> None:
    assert "taints" not in fabric.only(engine.NODE_GROUP, "system").inputs


def test_nodes_have_the_user_s_labels() -> None:
    deployment = pool(labels={"team": "ml"})
    assert group(deployment).inputs["labels"]["team"] == "ml"
    assert group_tags(deployment)[f"{TEMPLATE_TAG}/label/team"] == "ml"


def test_an_autoscaler_can_scale_up_from_zero(fabric: Deployment) -> None:
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
    on_group = {key: value for key, value in group_tags(fabric).items() if key.startswith("k8s.io/")}
    on_node_group = {key: value for key, value in group(fabric).inputs["tags"].items() if key.startswith("k8s.io/")}
    assert on_group == expected and on_node_group == expected


def test_a_node_without_efa_advertises_none(plain: Deployment) -> None:
    assert not [key for key in group_tags(plain) if "efa" in key or "hugepages" in key]


@pytest.mark.parametrize("name", ["train", "system"])
def test_an_auto_scaling_group_has_the_cost_tags(plain: Deployment, name: str) -> None:
    tags = group_tags(plain, name)
    assert tags["gpumpi:stack"] == "test" and tags["cost-center"] == "test" and tags["gpumpi:pool"] == name


def test_instances_get_the_pool_s_tags_from_the_group_but_not_the_autoscaler_s(fabric: Deployment) -> None:
    tags = [tag.inputs["tag"] for tag in fabric.created(engine.GROUP_TAG, "-train-tag-")]
    copied = {tag["key"] for tag in tags if tag["propagateAtLaunch"]}
    assert copied == {"Name", "gpumpi:stack", "gpumpi:pool", "cost-center", "managed-by"}


def test_a_changed_tag_creates_no_new_launch_template_version(fabric: Deployment) -> None:
    """A new launch template version would make EKS replace all nodes."""
    assert {template.ignored_changes for template in fabric.created(engine.LAUNCH_TEMPLATE)} == {("tagSpecifications",)}


def test_without_the_autoscaler_there_are_no_autoscaler_tags() -> None:
    deployment = pool(autoscaler=False)
    assert not [key for key in {**group_tags(deployment), **group(deployment).inputs["tags"]} if key.startswith("k8s.io/")]
    assert not deployment.created(engine.POD_IDENTITY, "autoscaler") and not deployment.named("gpumpi-test-autoscaler")
