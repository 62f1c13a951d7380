"""Control plane, add-ons, access entries and pods' AWS permissions."""

import json
from dataclasses import replace
from typing import Any

import pytest

from infra.facts.model import Existing
from localcloud.aws.policy_evaluation import Request, allows
from localcloud.engine.aws.diff import compare
from localcloud.engine.aws.resources.eks_cluster import Cluster
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world

CALLER = "arn:aws:iam::123456789012:user/ada"


def deploy_cluster(**target: Any) -> Deployment:
    settings = world.settings(world.pool(), target=target)
    return deploy(settings, world.account_facts(settings))


@pytest.fixture(scope="module")
def default_cluster() -> Deployment:
    return deploy_cluster()


def find_control_plane(of: Deployment) -> Any:
    return of.find_resource(engine.CLUSTER).inputs


# --- version


def test_a_new_cluster_is_upgraded_automatically_at_the_end_of_standard_support(default_cluster: Deployment) -> None:
    assert find_control_plane(default_cluster)["upgradePolicy"] == {"supportType": "STANDARD"}


def test_an_existing_cluster_without_an_upgrade_policy_is_not_changed() -> None:
    settings = world.settings()
    facts = world.account_facts(settings, existing=Existing("1.35", support_type="EXTENDED"))
    inputs = find_control_plane(deploy(settings, facts))
    reported = {"upgradePolicy": {"supportType": "EXTENDED"}}
    changed = compare({"upgradePolicy": Cluster.props["upgradePolicy"]}, reported, {"upgradePolicy": inputs["upgradePolicy"]})
    assert not changed


# --- endpoints


def test_the_api_server_endpoint_is_private_by_default(default_cluster: Deployment) -> None:
    vpc = find_control_plane(default_cluster)["vpcConfig"]
    assert vpc["endpointPrivateAccess"] and not vpc["endpointPublicAccess"] and "publicAccessCidrs" not in vpc


def test_a_public_endpoint_admits_only_the_configured_addresses() -> None:
    vpc = find_control_plane(deploy_cluster(endpointAccess={"publicCidrs": ["203.0.113.0/24"]}))["vpcConfig"]
    assert vpc["endpointPrivateAccess"] and vpc["endpointPublicAccess"] and vpc["publicAccessCidrs"] == ["203.0.113.0/24"]


def test_a_public_endpoint_can_be_disabled_while_its_addresses_stay_in_the_file() -> None:
    vpc = find_control_plane(deploy_cluster(endpointAccess={"public": False, "publicCidrs": ["203.0.113.0/24"]}))["vpcConfig"]
    assert not vpc["endpointPublicAccess"] and "publicAccessCidrs" not in vpc


def test_the_private_endpoint_admits_the_configured_networks() -> None:
    deployment = deploy_cluster(endpointAccess={"privateCidrs": ["10.8.0.0/16", "172.31.9.0/24"]})
    group = deployment.find_resource(engine.CLUSTER).state["vpcConfig"]["clusterSecurityGroupId"]
    rules = [rule.inputs for rule in deployment.find_resources(engine.INGRESS_RULE) if rule.inputs["securityGroupId"] == group]
    assert {rule["cidrIpv4"] for rule in rules} == {"10.8.0.0/16", "172.31.9.0/24"}
    assert {(rule["ipProtocol"], rule["fromPort"], rule["toPort"]) for rule in rules} == {("tcp", 443, 443)}
    assert deployment.outputs["clusterSecurityGroupId"] == group


def test_the_private_endpoint_admits_no_network_by_default() -> None:
    deployment = deploy_cluster(endpointAccess={})
    group = deployment.find_resource(engine.CLUSTER).state["vpcConfig"]["clusterSecurityGroupId"]
    assert [rule for rule in deployment.find_resources(engine.INGRESS_RULE) if rule.inputs["securityGroupId"] == group] == []


# --- secrets, logs, deletion protection


def test_secrets_are_encrypted_with_a_rotating_key_of_the_stack(default_cluster: Deployment) -> None:
    key = default_cluster.find_resource(engine.KEY, "secrets")
    assert key.inputs["enableKeyRotation"] is True
    encryption = find_control_plane(default_cluster)["encryptionConfig"]
    assert encryption == {"provider": {"keyArn": key.state["arn"]}, "resources": ["secrets"]}


def test_all_five_control_plane_logs_are_encrypted_and_kept_for_the_configured_days() -> None:
    stack = deploy_cluster(logRetentionDays=365)
    assert find_control_plane(stack)["enabledClusterLogTypes"] == [
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    ]
    group = stack.find_resource(engine.LOG_GROUP, "cluster-logs")
    assert group.inputs["name"] == "/aws/eks/gpumpi-test/cluster"
    assert group.inputs["retentionInDays"] == 365
    assert group.inputs["kmsKeyId"] == stack.find_resource(engine.KEY, "logs-key").state["arn"]


def test_job_logs_are_encrypted_kept_for_the_configured_days_and_written_by_job_pods() -> None:
    settings = world.settings(world.pool(), target={"logRetentionDays": 365}, platform={"jobLogs": "cloudwatch"})
    deployment = deploy(settings, world.account_facts(settings))
    group, key = deployment.find_resource(engine.LOG_GROUP, "job-logs-group"), deployment.find_resource(engine.KEY, "logs-key")
    assert (group.inputs["name"], group.inputs["retentionInDays"]) == ("/gpumpi/test/jobs", 365)
    assert group.inputs["kmsKeyId"] == key.state["arn"]
    arn = "arn:aws:logs:us-west-2:123456789012:log-group:/gpumpi/test/jobs"
    context = {"kms:encryptioncontext:aws:logs:arn": arn}
    service = {"Service": "logs.us-west-2.amazonaws.com"}
    assert allows(Request("kms:GenerateDataKey", key.state["arn"], context, service), json.loads(key.inputs["policy"]))
    policy = json.loads(deployment.find_resource("aws:iam/rolePolicy:RolePolicy", "mpi-jobs-job-logs").inputs["policy"])
    pod = {"aws:PrincipalTag/kubernetes-namespace": "mpi-jobs", "aws:PrincipalTag/kubernetes-pod-name": "mnist-0"}
    stream = f"{group.state['arn']}:log-stream:mpi-jobs/mnist/7/mnist-0"
    assert allows(Request("logs:PutLogEvents", stream, pod), policy)


def test_there_is_no_log_group_for_job_logs_by_default(default_cluster: Deployment) -> None:
    assert default_cluster.find_resources(engine.LOG_GROUP, "job-logs") == []


def test_the_control_plane_log_group_is_created_before_the_cluster(default_cluster: Deployment) -> None:
    assert default_cluster.find_resource(engine.LOG_GROUP, "cluster-logs") in default_cluster.list_dependencies(
        default_cluster.find_resource(engine.CLUSTER)
    )


def test_the_log_key_can_be_used_only_for_the_two_log_groups(default_cluster: Deployment) -> None:
    policy = json.loads(default_cluster.find_resource(engine.KEY, "logs-key").inputs["policy"])
    for name, served in (
        ("/aws/eks/gpumpi-test/cluster", True),
        ("/gpumpi/test/flow-logs", True),
        ("/aws/eks/other/cluster", False),
    ):
        context = {"kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:us-west-2:123456789012:log-group:{name}"}
        request = Request("kms:Encrypt", "key", context, {"Service": "logs.us-west-2.amazonaws.com"})
        assert allows(request, policy) is served


@pytest.mark.parametrize("protected", [True, False])
def test_the_deletion_protection_setting_is_passed_to_eks(protected: bool) -> None:
    assert find_control_plane(deploy_cluster(deletionProtection=protected))["deletionProtection"] is protected


def test_services_use_the_address_range_reserved_by_validation(default_cluster: Deployment) -> None:
    assert find_control_plane(default_cluster)["kubernetesNetworkConfig"] == {"serviceIpv4Cidr": "172.20.0.0/16"}


# --- access


def test_the_creator_gets_no_implicit_access_to_the_cluster(default_cluster: Deployment) -> None:
    access = find_control_plane(default_cluster)["accessConfig"]
    assert access == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}


def test_admins_and_the_caller_are_cluster_administrators() -> None:
    deployment = deploy_cluster(admins=[world.ADMIN])
    assert {entry.inputs["principalArn"] for entry in deployment.find_resources(engine.ACCESS_ENTRY)} == {world.ADMIN, CALLER}
    policies = {policy.inputs["principalArn"]: policy.inputs for policy in deployment.find_resources(engine.ACCESS_POLICY)}
    assert set(policies) == {world.ADMIN, CALLER}
    for association in policies.values():
        assert association["policyArn"] == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        assert association["accessScope"] == {"type": "cluster"}


def test_a_caller_who_is_also_listed_as_admin_gets_a_single_access_entry() -> None:
    assert len(deploy_cluster(admins=[CALLER]).find_resources(engine.ACCESS_ENTRY)) == 1


def test_a_caller_with_an_unknown_role_gets_no_access_entry() -> None:
    settings = world.settings(world.pool(), target={"admins": [world.ADMIN]})
    facts = world.account_facts(settings)
    deployment = deploy(settings, replace(facts, caller=replace(facts.caller, principal_arn=None)))
    assert [entry.inputs["principalArn"] for entry in deployment.find_resources(engine.ACCESS_ENTRY)] == [world.ADMIN]


def test_an_access_entry_is_named_after_its_principal() -> None:
    names = {entry.name for entry in deploy_cluster(admins=[world.ADMIN]).find_resources(engine.ACCESS_ENTRY)}
    assert names == {
        "gpumpi-test-cluster-123456789012-role-Admin-access",
        "gpumpi-test-cluster-123456789012-user-ada-access",
    }


def test_a_job_user_gets_groups_and_no_access_policy() -> None:
    researcher, reviewer = "arn:aws:iam::123456789012:role/Researcher", "arn:aws:iam::123456789012:user/eve"
    role = "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Lead_0123456789abcdef"
    users = [
        {"principal": researcher, "namespaces": ["red", "blue"]},
        {"principal": researcher, "namespaces": ["green"], "access": "view"},
        {"principal": reviewer, "access": "view"},
        {"permissionSet": "Lead"},
    ]
    settings = world.settings(
        world.pool(), target={"users": users}, platform={"install": False, "namespaces": ["red", "blue", "green"]}
    )
    deployment = deploy(settings, world.account_facts(settings, permission_sets={"Lead": (role,)}))
    entries = deployment.find_resources(engine.ACCESS_ENTRY)
    groups = {entry.inputs["principalArn"]: entry.inputs.get("kubernetesGroups") for entry in entries}
    view, submit = "gpumpi:job-users:view", "gpumpi:job-users:submit"
    assert groups == {
        CALLER: None,
        researcher: ["gpumpi:job-users", f"{submit}:blue", f"{submit}:red", f"{view}:green"],
        reviewer: ["gpumpi:job-users", f"{view}:red"],
        role: ["gpumpi:job-users", f"{submit}:red"],
    }
    assert {policy.inputs["principalArn"] for policy in deployment.find_resources(engine.ACCESS_POLICY)} == {CALLER}


# --- add-ons


def read_addons(of: Deployment) -> dict[str, Any]:
    return {addon.inputs["addonName"]: addon.inputs for addon in of.find_resources(engine.ADDON)}


def test_a_new_cluster_gets_every_add_on_in_its_default_version() -> None:
    settings = world.settings(world.pool(), storage={"fsx": {}})
    defaults = {name: versions.default for name, versions in world.ADDON_VERSIONS.items()}
    deployment = deploy(settings, world.account_facts(settings))
    assert {name: addon["addonVersion"] for name, addon in read_addons(deployment).items()} == defaults


def test_aws_chooses_the_version_of_add_ons_without_known_versions() -> None:
    settings = world.settings(world.pool())
    deployment = deploy(settings, world.account_facts(settings, addon_versions={}))
    assert not [name for name, addon in read_addons(deployment).items() if "addonVersion" in addon]


def test_the_version_of_an_add_on_can_be_configured() -> None:
    assert (
        read_addons(deploy_cluster(addonVersions={"coredns": "v1.14.6-eksbuild.4"}))["coredns"]["addonVersion"]
        == "v1.14.6-eksbuild.4"
    )


def test_every_add_on_is_managed_by_eks(default_cluster: Deployment) -> None:
    assert find_control_plane(default_cluster)["bootstrapSelfManagedAddons"] is False
    assert {addon["resolveConflictsOnCreate"] for addon in read_addons(default_cluster).values()} == {"OVERWRITE"}


def test_vpc_cni_enforces_network_policies_and_keeps_few_spare_addresses(default_cluster: Deployment) -> None:
    configuration = json.loads(read_addons(default_cluster)["vpc-cni"]["configurationValues"])
    assert configuration["enableNetworkPolicy"] == "true"
    assert set(configuration["env"]) == {"MINIMUM_IP_TARGET", "WARM_IP_TARGET"}


def test_the_gpu_component_of_node_monitoring_runs_on_gpu_nodes(default_cluster: Deployment) -> None:
    configuration = json.loads(read_addons(default_cluster)["eks-node-monitoring-agent"]["configurationValues"])
    assert configuration["dcgmAgent"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("addon", "account", "policy"),
    [
        ("vpc-cni", "aws-node", "AmazonEKS_CNI_Policy"),
        ("aws-efs-csi-driver", "efs-csi-controller-sa", "service-role/AmazonEFSCSIDriverPolicy"),
    ],
)
def test_each_add_on_has_its_own_iam_role(default_cluster: Deployment, addon: str, account: str, policy: str) -> None:
    role = default_cluster.find_resource(engine.ROLE, addon.removeprefix("aws-"))
    assert read_addons(default_cluster)[addon]["podIdentityAssociations"] == [
        {"roleArn": role.state["arn"], "serviceAccount": account}
    ]
    attached = default_cluster.find_resource(engine.ROLE_POLICY_ATTACHMENT, addon.removeprefix("aws-")).inputs
    assert attached["policyArn"] == f"arn:aws:iam::aws:policy/{policy}"


def test_no_efs_driver_is_installed_without_shared_storage() -> None:
    settings = world.settings(world.pool(), storage={"efs": "none"})
    deployment = deploy(settings, world.account_facts(settings))
    assert "aws-efs-csi-driver" not in read_addons(deployment)
    assert not [resource.name for resource in deployment.resources if resource.type.startswith("aws:efs/")]


# --- roles


def test_nodes_have_only_the_managed_policies_that_eks_requires(default_cluster: Deployment) -> None:
    attached = {
        grant.inputs["policyArn"].rpartition("/")[2]
        for grant in default_cluster.find_resources(engine.ROLE_POLICY_ATTACHMENT, "-node-")
    }
    assert attached == {"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"}


def test_only_the_expected_managed_policies_are_attached(default_cluster: Deployment) -> None:
    attached = {
        grant.inputs["policyArn"].rpartition("policy/")[2]
        for grant in default_cluster.find_resources(engine.ROLE_POLICY_ATTACHMENT)
    }
    assert attached == {
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKS_CNI_Policy",
        "service-role/AmazonEFSCSIDriverPolicy",
    }


@pytest.mark.parametrize(
    ("name", "namespace", "account"),
    [("mpi-jobs-job", "mpi-jobs", "mpi-job"), ("autoscaler", "kube-system", "cluster-autoscaler")],
)
def test_pods_get_their_role_through_pod_identity(default_cluster: Deployment, name: str, namespace: str, account: str) -> None:
    role, association = (
        default_cluster.find_resource(engine.ROLE, f"test-{name}"),
        default_cluster.find_resource(engine.POD_IDENTITY, f"test-{name}").inputs,
    )
    assert (association["namespace"], association["serviceAccount"]) == (namespace, account)
    assert association["roleArn"] == role.state["arn"]
    tags = {
        "aws:SourceAccount": "123456789012",
        "aws:RequestTag/eks-cluster-arn": "arn:aws:eks:us-west-2:123456789012:cluster/gpumpi-test",
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": account,
    }
    trust = json.loads(role.inputs["assumeRolePolicy"])
    assert allows(Request("sts:AssumeRole", "role", tags, {"Service": "pods.eks.amazonaws.com"}), trust)


def test_ssh_keys_are_exchanged_through_a_bucket_of_the_stack(default_cluster: Deployment) -> None:
    policy = json.loads(default_cluster.find_resource(engine.ROLE_POLICY, "job-policy").inputs["policy"])
    bucket = default_cluster.find_resource(engine.BUCKET).state["arn"]
    context = {
        "aws:userid": "AROA:i-1",
        "aws:PrincipalTag/kubernetes-namespace": "mpi-jobs",
        "aws:PrincipalTag/kubernetes-pod-name": "worker-0",
    }
    own = "jobs/mpi-jobs/worker-0/id.pub"
    assert allows(Request("s3:PutObject", f"{bucket}/{own}", context), policy)
    assert not allows(Request("s3:PutObject", f"arn:aws:s3:::other/{own}", context), policy)
