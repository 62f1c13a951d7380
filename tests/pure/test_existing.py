"""Stacks for an existing cluster: invalid settings, and settings that do not match the cluster."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.stacks.validate import validate_command
from infra import preflight
from infra.config import stack_file
from infra.facts import existing_cluster
from infra.facts.existing_cluster import ClusterFacts, convert_node
from infra.naming import Taint
from infra.validation.existing_cluster import list_nodes_without_gpus
from tests.program.existing_world import LEAST, POOL, RACK, make_cluster_facts, make_node, validate_values

ROOT = Path(__file__).parents[2]
TAINTED = Taint("nvidia.com/gpu", "present")


def find_problems(values: Mapping[str, Any], facts: ClusterFacts | None = None) -> list[str]:
    return [str(problem) for problem in validate_values({**LEAST, **values}, facts).problems]


def make_pool_values(**more: Any) -> dict[str, Any]:
    return {"pools": [{**POOL, **more}]}


INFINIBAND: dict[str, Any] = {**make_pool_values(rdmaResource="rdma/ib"), "platform": {"transport": "infiniband"}}


def make_kubeconfig_values(**values: Any) -> dict[str, Any]:
    return {"target": {"kind": "existing", "kubeconfig": values}}


ALONE: dict[str, tuple[dict[str, Any], str]] = {
    "a relative path": (
        make_kubeconfig_values(path="admin.conf"),
        'target.kubeconfig.path: "admin.conf" depends on the working directory of `pulumi`. Use an absolute path, or '
        "one that starts with ~/",
    ),
    "number as the kubeconfig context": (
        make_kubeconfig_values(context=1),
        'target.kubeconfig.context: 1 is a number. Write it in quotes: "1"',
    ),
    "setting for AWS only": (
        {"network": {"cidr": "10.0.0.0/16"}},
        "network: is not a setting. The settings here are jobs, platform, pools, storage and target.",
    ),
    "platform component that needs AWS": (
        {"platform": {"autoscaler": True}},
        "platform.autoscaler: is not a setting. The settings here are alertReceiver, cpuRequestFactor, devicePlugin, "
        "imagePullSecrets, imageRegistry, imageRepository, manifestMirror, monitoring, mpiOperator, namespaces, "
        "nodeHealing, queue, queueOrder, remoteWrite, remoteWriteLogin, startAttempts, trainer and transport.",
    ),
    "a version": (
        {"target": {"kind": "existing", "kubernetesVersion": "1.35"}},
        "target.kubernetesVersion: is not a setting. The settings here are kind, kubeconfig and system.",
    ),
    "invalid label key": (
        {"target": {"kind": "existing", "system": {"nodeSelector": {"a b": "c"}}}},
        "target.system.nodeSelector.a b: is not a valid label key. Use one such as team or example.com/team.",
    ),
    "no labels": (
        make_pool_values(nodeSelector={}),
        "pools[0].nodeSelector: is empty, which selects every node. Set it to labels that only this pool's nodes have, such as "
        '{example.com/rack: "1"}.',
    ),
    "invalid label value": (
        make_pool_values(nodeSelector={"rack": "a/b"}),
        'pools[0].nodeSelector.rack: "a/b" is not a valid label value. Use at most 63 letters, digits and inner - _ .',
    ),
    "too many GPUs": (make_pool_values(gpusPerNode=800), "pools[0].gpusPerNode: 800 is out of range. Use 0 to 64."),
    "InfiniBand without a resource": (
        {"platform": {"transport": "infiniband"}},
        "pools[0].rdmaResource: is missing, but platform.transport is infiniband. Set a resource that `kubectl describe node` "
        "lists, such as rdma/hca_shared_devices_a, or use transport: tcp.",
    ),
    "InfiniBand without pools": (
        {"platform": {"transport": "infiniband"}, "pools": []},
        "platform.transport: is infiniband, but no pool has an rdmaResource. Add an rdmaResource to a pool, or use tcp.",
    ),
    "invalid RDMA resource": (
        {**make_pool_values(rdmaResource="mellanox/ib"), "platform": {"transport": "infiniband"}},
        'pools[0].rdmaResource: "mellanox/ib" is not a resource of an RDMA plugin. Use one such as rdma/hca_shared_devices_a.',
    ),
    "no node": (make_pool_values(nodes=0), "pools[0].nodes: 0 is too small. Use at least 1, or remove the pool."),
    "missing number of nodes": (
        {"pools": [{key: value for key, value in POOL.items() if key != "nodes"}]},
        "pools[0].nodes: is missing. Add it, for example `nodes: 4`.",
    ),
    "invalid pool name": (
        make_pool_values(name="Rack1"),
        'pools[0].name: "Rack1" is not a DNS label. Use lowercase letters, digits and inner hyphens, starting with a letter.',
    ),
    "unknown kind of storage": (
        {"storage": {"kind": "efs"}},
        'storage.kind: "efs" is not valid. Use none, nfs or storage-class. Did you mean nfs?',
    ),
    "no host": (
        {"storage": {"kind": "nfs", "server": "10.0.0.5:/export", "path": "/export"}},
        'storage.server: "10.0.0.5:/export" is not a host name or IP address. Use one such as 10.0.0.5.',
    ),
    "export path that is not absolute": (
        {"storage": {"kind": "nfs", "server": "10.0.0.5", "path": "export"}},
        'storage.path: "export" is not an absolute path without `..`. Use one such as /export/jobs.',
    ),
    "mount path in a system folder": (
        {"storage": {"kind": "nfs", "server": "10.0.0.5", "path": "/export", "mountPath": "/usr"}},
        'storage.mountPath: "/usr" is a system directory. Use a path such as /shared.',
    ),
    "mount path over the home of the jobs' user": (
        {"storage": {"kind": "nfs", "server": "10.0.0.5", "path": "/export", "mountPath": "/home/"}},
        'storage.mountPath: "/home" would hide the home directory /home/mpiuser. Use a path such as /shared.',
    ),
    "invalid storage class name": (
        {"storage": {"kind": "storage-class", "name": "Ceph FS"}},
        'storage.name: "Ceph FS" is not a valid StorageClass name. Use one that `kubectl get storageclass` lists.',
    ),
    "no size": (
        {"storage": {"kind": "storage-class", "name": "cephfs", "size": "much"}},
        'storage.size: "much" is not a quantity. Use one such as 64Gi.',
    ),
    "namespace reserved for Kubernetes": (
        {"platform": {"namespaces": ["kube-system"]}},
        'platform.namespaces[0]: "kube-system" is reserved: the cluster\'s own pods run there. Choose another.',
    ),
    "repository without a registry": (
        {"platform": {"imageRepository": "team"}},
        'platform.imageRepository: "team" is not a repository. Use the registry\'s host and a path, without a scheme, such as '
        "registry.example.com/team.",
    ),
    "invalid Secret name": (
        {"platform": {"imagePullSecrets": ["my login"]}},
        'platform.imagePullSecrets[0]: "my login" is not a valid Secret name. Use the name shown by `kubectl get secrets`, such '
        "as registry-login.",
    ),
    "two jobs with the same name": (
        {"jobs": [{"name": "a", "pool": "rack1", "workers": 1, "image": "registry.example.com/i:1", "command": ["x"]}] * 2},
        'jobs[1].name: "a" is already the name of jobs[0]. Choose another.',
    ),
}
IN_CLUSTER: dict[str, tuple[dict[str, Any], ClusterFacts, str]] = {
    "old Kubernetes version": (
        {},
        make_cluster_facts(version="1.29"),
        "target.kubeconfig: the cluster at https://10.0.0.1:6443 has Kubernetes 1.29, but the platform needs 1.33 or "
        "newer. Upgrade the cluster.",
    ),
    "no RDMA device": (
        INFINIBAND,
        make_cluster_facts(make_node("gpu1", rdma={"rdma/ib": 8}), make_node("gpu2")),
        "pools[0].rdmaResource: is rdma/ib, missing on gpu2. Check the RDMA device plugin there.",
    ),
    "no RDMA device plugin": (
        INFINIBAND,
        make_cluster_facts(),
        "pools[0].rdmaResource: is rdma/ib, missing on gpu1 and gpu2. Check the RDMA device plugin there.",
    ),
    "another RDMA resource": (
        INFINIBAND,
        make_cluster_facts(make_node("gpu1", rdma={"rdma/hca": 8}), make_node("gpu2", rdma={"rdma/hca": 8})),
        "pools[0].rdmaResource: is rdma/ib, missing on gpu1 and gpu2. Did you mean rdma/hca?",
    ),
    "no node with the pool's labels": (
        {},
        make_cluster_facts(make_node("gpu1", {})),
        "pools[0].nodeSelector: no node of the cluster has the label example.com/rack=1. Label the pool's nodes: "
        "kubectl label nodes NAME example.com/rack=1",
    ),
    "too few nodes": (
        make_pool_values(nodes=3),
        make_cluster_facts(),
        "pools[0].nodes: is 3, but only 2 (gpu1 and gpu2) of the cluster's nodes have the label example.com/rack=1. "
        "Set 2, or join and label more nodes.",
    ),
    "a node in two pools": (
        {"pools": [POOL, {**POOL, "name": "big", "nodeSelector": {"size": "big"}, "nodes": 1}]},
        make_cluster_facts(make_node("gpu1", {**RACK, "size": "big"}), make_node("gpu2")),
        "pools[1].nodeSelector: selects node gpu1, which pools[0] also selects. Give the two pools different labels.",
    ),
    "device plugin that finds no GPU": (
        {},
        make_cluster_facts(make_node("gpu1", gpus=8), make_node("gpu2", has_plugin=True)),
        "pools[0].gpusPerNode: is 8, but gpu2 offers no GPUs: the device plugin there finds none. Check the driver "
        "there with `nvidia-smi`, or remove the label.",
    ),
    "fewer GPUs": (
        {},
        make_cluster_facts(make_node("gpu1", gpus=8), make_node("gpu2", gpus=4)),
        "pools[0].gpusPerNode: is 8, but gpu2 offers 4. Set 4, or put that node into its own pool.",
    ),
    "device plugin disabled and not installed": (
        {"platform": {"devicePlugin": False}},
        make_cluster_facts(),
        "pools[0].gpusPerNode: is 8, but no device plugin offers GPUs on gpu1 and gpu2. Remove platform.devicePlugin: "
        "false, or install a device plugin there.",
    ),
    "only tainted nodes for operators": (
        {},
        make_cluster_facts(nodes=(make_node("gpu1", taints=(TAINTED,)), make_node("gpu2", taints=(TAINTED,)))),
        "target.system.nodeSelector: all selected nodes (gpu1 and gpu2) have taints. Select other nodes, or remove the "
        "taint from one (`kubectl taint nodes NAME KEY-`).",
    ),
    "nodes for operators without room for launchers": (
        {},
        make_cluster_facts(make_node("gpu1"), make_node("gpu2"), make_node("small", {}, cpu_millis=1900, memory_mib=1900)),
        "target.system.nodeSelector: a launcher needs 250m CPU and 1024 MiB, but the smallest selected node has only 1100m and "
        "950 MiB left. Select larger nodes.",
    ),
    "no node for operators": (
        {"target": {"kind": "existing", "system": {"nodeSelector": {"role": "ops"}}}},
        make_cluster_facts(),
        "target.system.nodeSelector: no node has the label role=ops. Label a node, or remove the key.",
    ),
    "storage class that does not exist": (
        {"storage": {"kind": "storage-class", "name": "ceph"}},
        make_cluster_facts(),
        'storage.name: "ceph" is not a StorageClass of the cluster. Did you mean cephfs?',
    ),
    "short image name without a repository": (
        {"jobs": [{"name": "a", "pool": "rack1", "workers": 2, "image": "i:1", "command": ["x"]}]},
        make_cluster_facts(),
        'jobs[0].image: "i:1" has no registry, and gpumpi-test has no image repository. Write the full name, such as '
        "docker.io/library/ubuntu:24.04, or set platform.imageRepositories (target eks) or platform.imageRepository and run "
        "`pulumi up`.",
    ),
    "job that is too large for its pool": (
        {"jobs": [{"name": "a", "pool": "rack1", "workers": 3, "image": "registry.example.com/i:1", "command": ["x"]}]},
        make_cluster_facts(),
        "jobs[0].workers",
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_each_mistake_in_a_file_gets_one_line_error(case: str) -> None:
    values, expected = ALONE[case]
    assert find_problems(values) == [expected]


@pytest.mark.parametrize("case", IN_CLUSTER)
def test_each_setting_that_does_not_fit_the_cluster_gets_one_error(case: str) -> None:
    values, facts, expected = IN_CLUSTER[case]
    (problem,) = find_problems(values, facts)
    assert problem == expected or problem.startswith(f"{expected}: ")


def test_minimal_settings_are_valid() -> None:
    assert find_problems({}) == []


def test_empty_sections_added_by_pulumi_are_accepted() -> None:
    values = {
        **LEAST,
        **{key: {} for key in ("network", "storage", "platform", "tags")},
        **make_kubeconfig_values(path="/nonexistent"),
    }
    assert preflight.examine_existing_stack(stack_file.RawStack("test", "", values)).problems == ()


def test_node_facts_match_the_kubernetes_node_object() -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    shown = {
        "metadata": {"name": "gpu1", "labels": dict(RACK)},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "63900m", "memory": "528Mi", "nvidia.com/gpu": "8"}},
    }
    parsed = convert_node(shown, ["gpu1"])
    assert (parsed.cpu_millis, parsed.memory_mib, parsed.gpus, parsed.has_plugin) == (63_900, 528, 8, True)
    assert parsed.taints == (TAINTED,), "a temporary not-ready taint must not become a toleration"


def test_gpus_are_not_checked_while_the_device_plugin_restarts() -> None:
    """After `pulumi destroy` removes the plugin, the kubelet reports 0 GPUs until the kubelet restarts."""
    lost = make_cluster_facts(make_node("gpu1", gpus=0), make_node("gpu2", gpus=8))
    examination = validate_values(LEAST, lost)
    assert examination.settings is not None
    assert (examination.problems, list_nodes_without_gpus(examination.settings, lost)) == ((), ["gpu1"])
    (problem,) = find_problems({"platform": {"devicePlugin": False}}, lost)
    assert problem.startswith("pools[0].gpusPerNode: is 8, but gpu1 offers no GPU")


def test_aws_region_is_refused_for_an_existing_cluster(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text("config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: existing}\n")
    (problem,) = preflight.examine_existing_stack(stack_file.read_stack_file(file), offline=True).problems
    assert str(problem) == "aws:region: is ignored, because a stack on an existing cluster does not query AWS; remove it"


# --- an unreachable cluster


def write_kubeconfig(folder: Path, server: str = "https://127.0.0.1:1", **context: Any) -> Path:
    """Write a kubeconfig and return its path."""
    file = folder / "admin.conf"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin",
        "clusters": [{"name": "rack", "cluster": {"server": server}}],
        "contexts": [{"name": "admin", "context": {"cluster": "rack", "user": "admin", **context}}],
        "users": [{"name": "admin", "user": {"token": "expired"}}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def explain_missing_query(path: Path, **more: Any) -> str:
    values = {**LEAST, **make_kubeconfig_values(path=str(path), **more)}
    return preflight.examine_existing_stack(stack_file.RawStack("test", "", values)).not_queried or ""


def test_error_names_missing_kubeconfig(tmp_path: Path) -> None:
    gone = tmp_path / "gone.conf"
    assert explain_missing_query(gone) == f"target.kubeconfig.path: {gone} does not exist. Set it to the cluster's kubeconfig"


def test_error_names_file_with_invalid_kubeconfig(tmp_path: Path) -> None:
    (file := tmp_path / "admin.conf").write_text("a: [")
    assert explain_missing_query(file).startswith(f"target.kubeconfig: {file} is not a usable kubeconfig: ")


def test_error_names_missing_context(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path)
    expected = f'target.kubeconfig: {file} has no context "admn". Did you mean admin? It has admin'
    assert explain_missing_query(file, context="admn") == expected


def test_error_names_unreachable_api_server(tmp_path: Path) -> None:
    expected = (
        "target.kubeconfig: https://127.0.0.1:1 does not respond (connection refused). "
        "Check that the cluster is up and that its address in the kubeconfig is current"
    )
    assert explain_missing_query(write_kubeconfig(tmp_path)) == expected


# --- the command


def test_validate_shows_pools_without_querying_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        existing_cluster, "gather_cluster_facts", lambda _: make_cluster_facts(make_node("gpu1", gpus=8), make_node("gpu2"))
    )
    (tmp_path / "Pulumi.mine.yaml").write_text(
        yaml.safe_dump({"config": {f"gpumpi:{key}": value for key, value in LEAST.items()}})
    )
    assert validate_command.validate_stack("mine", tmp_path, offline=False, as_json=False) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "gpumpi-mine: Kubernetes 1.35 at https://10.0.0.1:6443",
        "pool    GPUs  nodes  labels",
        "system     0      3  any node",
        "rack1      8      2  example.com/rack=1",
        "at most 16 GPUs",
        "Pulumi.mine.yaml: no problems found",
        "not checked: GPUs of gpu2: no device plugin has reported the number yet",
    ]


def test_example_stack_file_is_valid_offline() -> None:
    raw = stack_file.read_stack_file(ROOT / "stacks" / "Pulumi.09-on-premises.yaml")
    assert preflight.examine_existing_stack(raw, offline=True).problems == ()


def test_unused_rdma_resource_gets_a_warning() -> None:
    (warning,) = validate_values({**LEAST, **make_pool_values(rdmaResource="rdma/ib")}).warnings
    assert warning.path == "pools[0].rdmaResource"
    assert warning.message.startswith("has no effect, because platform.transport is tcp. ")
