"""`validate` on manifests of other systems: every reason why a pod would not run in a job namespace."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.jobs.importing import admission, placement
from cli.main import main
from infra.jobs.cluster import TaintDescription
from tests.pure.job_world import REPOSITORY, SYSTEM, TAINT, TRAIN, make_cluster

SOUND: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "pytorch",
            "image": "registry.test/a:1",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "resources": {"limits": {"nvidia.com/gpu": 8}},
        }
    ],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
}


def make_manifest(**spec: Any) -> dict[str, Any]:
    pods = {"replicas": 1, "template": {"spec": {**SOUND, **spec}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": {"Worker": pods}}


def make_pod_spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{**SOUND["containers"][0], **more}]}


def find_problems(document: dict[str, Any], **described: Any) -> list[str]:
    prefix, here = "spec.Worker.template.spec.", make_cluster(**described)
    problems = [*admission.find_violations(document), *placement.problems(document, here, here.namespaces[0])]
    return [f"{problem.path.removeprefix(prefix)}: {problem.message}" for problem in problems]


def test_compliant_manifest_has_no_problems() -> None:
    assert find_problems(make_manifest()) == []


OWN = SOUND["containers"][0]["securityContext"]
RESTRICTED = "Pod Security (restricted)"


@pytest.mark.parametrize(
    ("changed", "path", "text"),
    [
        ({"hostNetwork": True}, "hostNetwork", f"{RESTRICTED} forbids it."),
        ({"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]}, "volumes[0].hostPath", "forbids this type of volume"),
        ({"securityContext": {"runAsNonRoot": True}}, "containers[0].securityContext", "requires seccompProfile"),
        (
            {"securityContext": {**SOUND["securityContext"], "runAsNonRoot": None}},
            "containers[0].securityContext",
            "runAsNonRoot",
        ),
        (
            make_pod_spec(securityContext={**OWN, "privileged": True}),
            "containers[0].securityContext",
            "requires privileged: false",
        ),
        (make_pod_spec(securityContext={**OWN, "runAsUser": 0}), "containers[0].securityContext", "a runAsUser other than 0"),
        (
            make_pod_spec(securityContext={**OWN, "capabilities": {}}),
            "containers[0].securityContext",
            "capabilities: {drop: [ALL]}",
        ),
        (make_pod_spec(ports=[{"hostPort": 80}]), "containers[0].ports[0].hostPort", "forbids host ports"),
        (
            make_pod_spec(resources={"limits": {"nvidia.com/gpu": 16}}),
            "containers[0].resources.limits.nvidia.com/gpu",
            "16 GPUs fit on no node. Lower it to 8.",
        ),
        (
            make_pod_spec(resources={"limits": {"memory": "2Ti"}}),
            "containers[0].resources.limits.memory",
            "2Ti of memory fit on no node. Lower it to 1000000Mi.",
        ),
        (
            make_pod_spec(resources={"limits": {"cpu": 2}, "requests": {"cpu": "96"}}),
            "containers[0].resources.requests.cpu",
            "96 CPUs fit on no node. Lower it to 95000m.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_each_pod_security_violation_gets_one_problem_with_its_path(changed: dict[str, Any], path: str, text: str) -> None:
    (problem,) = find_problems(make_manifest(**changed))
    assert problem.startswith(f"{path}: ") and text in problem


def test_unknown_queue_is_reported_with_the_existing_queue() -> None:
    label = "kueue.x-k8s.io/queue-name"
    document = make_manifest() | {"metadata": {"name": "a", "labels": {label: "team-a"}}}
    why = 'namespace mpi-jobs has no queue "team-a", so the job would wait forever. Use jobs, or remove it.'
    assert find_problems(document) == [f"metadata.labels.{label}: {why}"]
    assert find_problems(make_manifest() | {"metadata": {"name": "a", "labels": {label: "jobs"}}}) == []


@pytest.mark.parametrize(
    ("selector", "texts"),
    [
        ({"node.kubernetes.io/instance-type": "p4d.24xlarge", "kubernetes.io/arch": "amd64"}, []),
        ({"gpumpi.io/pool": "train"}, []),
        (
            {"node.kubernetes.io/instance-type": "p5.48xlarge"},
            ['no pool has instances of type "p5.48xlarge". Use g5.12xlarge or p4d.24xlarge, or remove it.'],
        ),
        (
            {"sagemaker.amazonaws.com/node-health-status": "Schedulable"},
            ["no pool has the label sagemaker.amazonaws.com/node-health-status: Schedulable. Remove it."],
        ),
    ],
    ids=["a type", "a pool", "another type", "HyperPod"],
)
def test_a_node_selector_must_select_nodes_of_a_pool(selector: dict[str, str], texts: list[str]) -> None:
    (key,) = list(selector)[:1]
    assert find_problems(make_manifest(nodeSelector=selector), region="us-west-2") == [
        f"nodeSelector.{key}: {text}" for text in texts
    ]
    assert find_problems(make_manifest(nodeSelector=selector)) == [], (
        "outside AWS, nodes may have labels that the description lacks"
    )


TEAM = TaintDescription(key="team", value="vision")


@pytest.mark.parametrize(
    ("tolerations", "fine"),
    [
        ([], False),
        ([{"key": "team", "operator": "Equal", "value": "audio"}], False),
        ([{"key": "team", "value": "vision", "effect": "NoExecute"}], False),
        ([{"key": "team", "value": "vision"}], True),
        ([{"key": "team", "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"operator": "Exists"}], True),
    ],
    ids=str,
)
def test_pods_must_tolerate_taints_of_a_pool_with_their_gpus(tolerations: list[dict[str, str]], fine: bool) -> None:
    pools = (SYSTEM, TRAIN.model_copy(update={"taints": (TAINT, TEAM)}))
    why = (
        "tolerations: the pods do not tolerate the taints of any pool with enough devices: "
        "train has team=vision:NoSchedule. Add tolerations."
    )
    assert find_problems(make_manifest(tolerations=tolerations), pools=pools) == ([] if fine else [why])


def test_image_outside_of_the_registry_mirror_is_a_problem() -> None:
    why = "nodes pull images through mirror.test/all. Use mirror.test/all/registry.test/a:1."
    assert find_problems(make_manifest(), image_registry="mirror.test/all") == [f"containers[0].image: {why}"]
    assert find_problems(make_manifest(**make_pod_spec(image=f"{REPOSITORY}/a:1")), image_registry="mirror.test/all") == []


@pytest.mark.parametrize(
    ("changed", "texts"),
    [
        ({"securityContext": {}, **make_pod_spec(securityContext={})}, []),
        (make_pod_spec(securityContext={"runAsUser": 0, "capabilities": {"add": ["CHOWN"]}}), []),
        ({"hostNetwork": True}, ["Pod Security (baseline) forbids it."]),
        ({"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]}, ["forbids this type of volume"]),
        (make_pod_spec(securityContext={"privileged": True}), ["Pod Security (baseline) requires privileged: false."]),
        (make_pod_spec(securityContext={"capabilities": {"add": ["IPC_LOCK"]}}), ["(adds IPC_LOCK)"]),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, ["a seccompProfile other than Unconfined"]),
        (make_pod_spec(ports=[{"hostPort": 80}]), ["forbids host ports"]),
    ],
    ids=["root", "a default capability", "host network", "hostPath", "privileged", "IPC_LOCK", "seccomp", "host port"],
)
def test_baseline_namespace_admits_root_but_refuses_host_access(changed: dict[str, Any], texts: list[str]) -> None:
    problems = [problem.message for problem in admission.find_violations(make_manifest(**changed), "baseline")]
    assert len(problems) == len(texts) and all(text in problem for text, problem in zip(texts, problems, strict=True)), problems


def test_pod_templates_are_found_in_every_kind() -> None:
    train_job = {"spec": {"template": {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": SOUND}}}}]}}}}
    ((path, spec),) = admission.find_pod_specs(train_job)
    assert spec is SOUND and path[-3:] == ("spec", "template", "spec")


def test_validate_recognizes_a_manifest_and_names_its_template_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fsdp.yaml"
    file.write_text(yaml.safe_dump(make_manifest(**make_pod_spec(image="${IMAGE_URI}"))))
    monkeypatch.setattr("sys.argv", ["cluster", "validate", str(file), "--offline", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 3 and not document["ok"]
    (problem,) = document["problems"]
    assert problem["path"] == "PyTorchJob a: spec.Worker.template.spec.containers[0].image"
    assert "IMAGE_URI is a template variable that nothing expands" in problem["message"]
    assert document["unchecked"], "without a cluster, it reports what was not checked"
