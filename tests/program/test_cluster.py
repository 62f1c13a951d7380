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


def cluster(**target: Any) -> Deployment:
    settings = world.settings(world.pool(), target=target)
    return deploy(settings, world.facts(settings))


@pytest.fixture(scope="module")
def usual() -> Deployment:
    return cluster()


def control_plane(of: Deployment) -> Any:
    return of.only(engine.CLUSTER).inputs


# --- version


def test_aws_upgrades_a_new_cluster_at_the_end_of_standard_support(usual: Deployment) -> None:
    assert control_plane(usual)["upgradePolicy"] == {"supportType": "STANDARD"}


def test_a_cluster_created_without_an_upgrade_policy_does_not_change() -> None:
    settings = world.settings()
    facts = world.facts(settings, existing=Existing("1.35", support_type="EXTENDED"))
    inputs = control_plane(deploy(settings, facts))
    reported = {"upgradePolicy": {"supportType": "EXTENDED"}}
    changed = compare({"upgradePolicy": Cluster.props["upgradePolicy"]}, reported, {"upgradePolicy": inputs["upgradePolicy"]})
    assert not changed


# --- endpoints


def test_the_api_endpoint_is_private_by_default(usual: Deployment) -> None:
    vpc = control_plane(usual)["vpcConfig"]
    assert vpc["endpointPrivateAccess"] and not vpc["endpointPublicAccess"] and "publicAccessCidrs" not in vpc


def test_a_public_endpoint_admits_only_the_given_addresses() -> None:
    vpc = control_plane(cluster(endpointAccess={"publicCidrs": ["203.0.113.0/24"]}))["vpcConfig"]
    assert vpc["endpointPrivateAccess"] and vpc["endpointPublicAccess"] and vpc["publicAccessCidrs"] == ["203.0.113.0/24"]


def test_a_public_endpoint_can_be_disabled_while_its_addresses_stay_in_the_file() -> None:
    vpc = control_plane(cluster(endpointAccess={"public": False, "publicCidrs": ["203.0.113.0/24"]}))["vpcConfig"]
    assert not vpc["endpointPublicAccess"] and "publicAccessCidrs" not in vpc


def test_the_private_endpoint_admits_the_given_networks() -> None:
    deployment = cluster(endpointAccess={"privateCidrs": ["10.8.0.0/16", "172.31.9.0/24"]})
    group = deployment.only(engine.CLUSTER).state["vpcConfig"]["clusterSecurityGroupId"]
    rules = [rule.inputs for rule in deployment.created(engine.INGRESS_RULE) if rule.inputs["securityGroupId"] == group]
    assert {rule["cidrIpv4"] for rule in rules} == {"10.8.0.0/16", "172.31.9.0/24"}
    assert {(rule["ipProtocol"], rule["fromPort"], rule["toPort"]) for rule in rules} == {("tcp", 443, 443)}
    assert deployment.outputs["clusterSecurityGroupId"] == group


def test_the_private_endpoint_admits_no_network_by_default() -> None:
    deployment = cluster(endpointAccess={})
    group = deployment.only(engine.CLUSTER).state["vpcConfig"]["clusterSecurityGroupId"]
    assert [rule for rule in deployment.created(engine.INGRESS_RULE) if rule.inputs["securityGroupId"] == group] == []


# --- secrets, logs, deletion protection


def test_secrets_are_encrypted_with_the_stack_s_own_rotating_key(usual: Deployment) -> None:
    key = usual.only(engine.KEY, "secrets")
    assert key.inputs["enableKeyRotation"] is True
    encryption = control_plane(usual)["encryptionConfig"]
    assert encryption == {"provider": {"keyArn": key.state["arn"]}, "resources": ["secrets"]}


def test_all_five_logs_are_encrypted_and_kept_for_the_configured_days() -> None:
    stack = cluster(logRetentionDays=365)
    assert control_plane(stack)["enabledClusterLogTypes"] == ["api", "audit", "authenticator", "controllerManager", "scheduler"]
    group = stack.only(engine.LOG_GROUP, "cluster-logs")
    assert group.inputs["name"] == "/aws/eks/gpumpi-test/cluster"
    assert group.inputs["retentionInDays"] == 365
    assert group.inputs["kmsKeyId"] == stack.only(engine.KEY, "logs-key").state["arn"]


def test_logs_of_jobs_are_encrypted_kept_for_the_configured_days_and_written_by_job_pods() -> None:
    settings = world.settings(world.pool(), target={"logRetentionDays": 365}, platform={"jobLogs": "cloudwatch"})
    deployment = deploy(settings, world.facts(settings))
    group, key = deployment.only(engine.LOG_GROUP, "job-logs-group"), deployment.only(engine.KEY, "logs-key")
    assert (group.inputs["name"], group.inputs["retentionInDays"]) == ("/gpumpi/test/jobs", 365)
    assert group.inputs["kmsKeyId"] == key.state["arn"]
    arn = "arn:aws:logs:us-west-2:123456789012:log-group:/gpumpi/test/jobs"
    context = {"kms:encryptioncontext:aws:logs:arn": arn}
    service = {"Service": "logs.us-west-2.amazonaws.com"}
    assert allows(Request("kms:GenerateDataKey", key.state["arn"], context, service), json.loads(key.inputs["policy"]))
    policy = json.loads(deployment.only("aws:iam/rolePolicy:RolePolicy", "mpi-jobs-job-logs").inputs["policy"])
    pod = {"aws:PrincipalTag/kubernetes-namespace": "mpi-jobs", "aws:PrincipalTag/kubernetes-pod-name": "mnist-0"}
    stream = f"{group.state['arn']}:log-stream:mpi-jobs/mnist/7/mnist-0"
    assert allows(Request("logs:PutLogEvents", stream, pod), policy)


def test_logs_of_jobs_have_no_log_group_by_default(usual: Deployment) -> None:
    assert usual.created(engine.LOG_GROUP, "job-logs") == []


def test_the_log_group_exists_before_eks_would_create_one_that_never_expires(usual: Deployment) -> None:
    assert usual.only(engine.LOG_GROUP, "cluster-logs") in usual.waits_for(usual.only(engine.CLUSTER))


def test_the_log_key_works_for_both_log_groups_and_no_other(usual: Deployment) -> None:
    policy = json.loads(usual.only(engine.KEY, "logs-key").inputs["policy"])
    for name, served in (
        ("/aws/eks/gpumpi-test/cluster", True),
        ("/gpumpi/test/flow-logs", True),
        ("/aws/eks/other/cluster", False),
    ):
        context = {"kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:us-west-2:123456789012:log-group:{name}"}
        request = Request("kms:Encrypt", "key", context, {"Service": "logs.us-west-2.amazonaws.com"})
        assert allows(request, policy) is served


@pytest.mark.parametrize("protected", [True, False])
def test_deletion_protection_is_passed_to_eks(protected: bool) -> None:
    assert control_plane(cluster(deletionProtection=protected))["deletionProtection"] is protected


def test_services_use_the_addresses_that_validation_reserves(usual: Deployment) -> None:
    assert control_plane(usual)["kubernetesNetworkConfig"] == {"serviceIpv4Cidr": "172.20.0.0/16"}


# --- access


def test_creating_the_cluster_gives_the_creator_no_implicit_access(usual: Deployment) -> None:
    access = control_plane(usual)["accessConfig"]
    assert access == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}


def test_admins_and_the_caller_are_cluster_admins() -> None:
    deployment = cluster(admins=[world.ADMIN])
    assert {entry.inputs["principalArn"] for entry in deployment.created(engine.ACCESS_ENTRY)} == {world.ADMIN, CALLER}
    policies = {policy.inputs["principalArn"]: policy.inputs for policy in deployment.created(engine.ACCESS_POLICY)}
    assert set(policies) == {world.ADMIN, CALLER}
    for association in policies.values():
        assert association["policyArn"] == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        assert association["accessScope"] == {"type": "cluster"}


def test_a_caller_who_is_also_a_listed_admin_has_one_entry() -> None:
    assert len(cluster(admins=[CALLER]).created(engine.ACCESS_ENTRY)) == 1


def test_a_caller_with_an_unknown_role_gets_no_entry() -> None:
    settings = world.settings(world.pool(), target={"admins": [world.ADMIN]})
    facts = world.facts(settings)
    deployment = deploy(settings, replace(facts, caller=replace(facts.caller, principal_arn=None)))
    assert [entry.inputs["principalArn"] for entry in deployment.created(engine.ACCESS_ENTRY)] == [world.ADMIN]


def test_an_entry_is_named_after_its_principal_so_that_other_entries_keep_their_names() -> None:
    names = {entry.name for entry in cluster(admins=[world.ADMIN]).created(engine.ACCESS_ENTRY)}
    assert names == {
        "gpumpi-test-cluster-123456789012-role-Admin-access",
        "gpumpi-test-cluster-123456789012-user-ada-access",
    }


# --- add-ons


def addons(of: Deployment) -> dict[str, Any]:
    return {addon.inputs["addonName"]: addon.inputs for addon in of.created(engine.ADDON)}


def test_new_cluster_gets_every_addon_in_the_default_version() -> None:
    settings = world.settings(world.pool(), storage={"fsx": {}})
    defaults = {name: versions.default for name, versions in world.ADDON_VERSIONS.items()}
    deployment = deploy(settings, world.facts(settings))
    assert {name: addon["addonVersion"] for name, addon in addons(deployment).items()} == defaults


def test_addons_without_known_versions_leave_the_version_to_aws() -> None:
    settings = world.settings(world.pool())
    deployment = deploy(settings, world.facts(settings, addon_versions={}))
    assert not [name for name, addon in addons(deployment).items() if "addonVersion" in addon]


def test_an_add_on_s_version_can_be_chosen() -> None:
    assert addons(cluster(addonVersions={"coredns": "v1.14.6-eksbuild.4"}))["coredns"]["addonVersion"] == "v1.14.6-eksbuild.4"


def test_every_add_on_is_eks_managed(usual: Deployment) -> None:
    assert control_plane(usual)["bootstrapSelfManagedAddons"] is False
    assert {addon["resolveConflictsOnCreate"] for addon in addons(usual).values()} == {"OVERWRITE"}


def test_network_policies_are_enforced_and_few_addresses_are_held_in_reserve(usual: Deployment) -> None:
    configuration = json.loads(addons(usual)["vpc-cni"]["configurationValues"])
    assert configuration["enableNetworkPolicy"] == "true"
    assert set(configuration["env"]) == {"MINIMUM_IP_TARGET", "WARM_IP_TARGET"}


def test_the_gpu_part_of_node_monitoring_runs_on_gpu_nodes(usual: Deployment) -> None:
    configuration = json.loads(addons(usual)["eks-node-monitoring-agent"]["configurationValues"])
    assert configuration["dcgmAgent"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("addon", "account", "policy"),
    [
        ("vpc-cni", "aws-node", "AmazonEKS_CNI_Policy"),
        ("aws-efs-csi-driver", "efs-csi-controller-sa", "service-role/AmazonEFSCSIDriverPolicy"),
    ],
)
def test_each_add_on_has_its_own_aws_role(usual: Deployment, addon: str, account: str, policy: str) -> None:
    role = usual.only(engine.ROLE, addon.removeprefix("aws-"))
    assert addons(usual)[addon]["podIdentityAssociations"] == [{"roleArn": role.state["arn"], "serviceAccount": account}]
    attached = usual.only(engine.ROLE_POLICY_ATTACHMENT, addon.removeprefix("aws-")).inputs
    assert attached["policyArn"] == f"arn:aws:iam::aws:policy/{policy}"


def test_without_shared_storage_no_efs_driver_is_installed() -> None:
    settings = world.settings(world.pool(), storage={"efs": "none"})
    deployment = deploy(settings, world.facts(settings))
    assert "aws-efs-csi-driver" not in addons(deployment)
    assert not [resource.name for resource in deployment.resources if resource.type.startswith("aws:efs/")]


# --- roles


def test_nodes_have_only_the_permissions_for_eks_and_session_manager(usual: Deployment) -> None:
    attached = {grant.inputs["policyArn"].rpartition("/")[2] for grant in usual.created(engine.ROLE_POLICY_ATTACHMENT, "-node-")}
    assert attached == {"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"}


def test_only_the_expected_managed_policies_are_attached(usual: Deployment) -> None:
    attached = {grant.inputs["policyArn"].rpartition("policy/")[2] for grant in usual.created(engine.ROLE_POLICY_ATTACHMENT)}
    assert attached == {
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
        "AmazonEKS_CNI_Policy",
        "service-role/AmazonEFSCSIDriverPolicy",
    }


@pytest.mark.parametrize(
    ("name", "namespace", "account"),
    [("mpi-jobs-job", "mpi-jobs", "mpi-job"), ("autoscaler", "kube-system", "cluster-autoscaler")],
)
def test_pods_get_their_role_through_pod_identity(usual: Deployment, name: str, namespace: str, account: str) -> None:
    role, association = usual.only(engine.ROLE, f"test-{name}"), usual.only(engine.POD_IDENTITY, f"test-{name}").inputs
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


@pytest.mark.parametrize(("role", "who"), [("node-keys", "node"), ("job-policy", "job")])
def test_keys_are_exchanged_through_the_stack_s_own_bucket(usual: Deployment, role: str, who: str) -> None:
    policy = json.loads(usual.only(engine.ROLE_POLICY, role).inputs["policy"])
    bucket = usual.only(engine.BUCKET).state["arn"]
    context = {
        "aws:userid": "AROA:i-1",
        "aws:PrincipalTag/kubernetes-namespace": "mpi-jobs",
        "aws:PrincipalTag/kubernetes-pod-name": "worker-0",
    }
    own = {"node": "nodes/AROA:i-1", "job": "jobs/mpi-jobs/worker-0"}[who]
    assert allows(Request("s3:PutObject", f"{bucket}/{own}/id.pub", context), policy)
    assert not allows(Request("s3:PutObject", f"arn:aws:s3:::other/{own}/id.pub", context), policy)
