"""Every job verb as a job user: a real API server with the Roles that `pulumi up` creates.

No kubelet runs here. So `logs`, `exec` and `port-forward` fail when the API server connects to the node, which is after it
has checked the user's permissions.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.clusters.dashboard.dashboard_command import _open_reader
from cli.clusters.kubernetes_access import Access
from cli.clusters.pod_streams import PortConnection
from cli.console import print_progress_once
from cli.errors import CommandError
from cli.jobs.workdir import in_cluster
from cli.main import VERBS, app
from infra.naming import RECORD_KEY, RECORD_LABEL
from infra.platform.job_users import name_role
from localcloud.tools.build import BuildError
from testkit.control_plane import ControlPlane, Objects
from tests.program.platform_world import PUBLIC, TRAIN, deploy_platform, list_manifests
from tests.pure.world import settings

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "job-users.md"
OWN, OTHER = "red", "blue"
ARN = "arn:aws:iam::123456789012:role/"
USERS = [
    {"principal": f"{ARN}Ada", "namespaces": [OWN]},
    {"principal": f"{ARN}Eve", "namespaces": [OWN], "access": "view"},
    {"principal": f"{ARN}Bob", "namespaces": [OTHER]},
]
KINDS = (
    *("CustomResourceDefinition", "Namespace", "ServiceAccount", "ConfigMap", "PriorityClass"),
    *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
)
"""Kinds of the platform's objects that this API server gets. Webhooks and quotas need controllers, which do not run."""
NODE = {
    "metadata": {"name": "node-1"},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    },
}
NUMBERS = count(1)


def find_api_path(manifest: Mapping[str, Any]) -> str:
    group, plural = manifest["apiVersion"], f"{manifest['kind'].lower()}s".replace("classs", "classes")
    namespace = manifest["metadata"].get("namespace")
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with the platform's objects, and a user for each access entry, with the entry's groups."""
    stack = deploy_platform(
        settings(TRAIN, target={**PUBLIC, "users": USERS}, platform={"install": True, "namespaces": [OWN, OTHER]})
    )
    entries = [resource.inputs for resource in stack.resources if resource.type.endswith(":AccessEntry")]
    groups = {entry["principalArn"].removeprefix(ARN).lower(): entry.get("kubernetesGroups", []) for entry in entries}
    users = {name: ",".join(own) for name, own in groups.items() if name in ("ada", "eve", "bob")}
    running = ControlPlane(tmp_path_factory.mktemp("plane"), users)
    try:
        running.start()
    except BuildError as error:
        pytest.skip(str(error))
    try:
        for manifest in sorted(list_manifests(stack, *KINDS), key=lambda manifest: KINDS.index(manifest["kind"])):
            status, answer = running.send("root", "POST", find_api_path(manifest), manifest)
            assert status < 300 or "already exists" in str(answer) or "not found" in str(answer), (manifest, answer)
        running.request("POST", "/api/v1/nodes", NODE)
        yield running
    finally:
        running.stop()


@pytest.fixture
def run(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a verb as a user, in the user's namespace."""

    def run_verb(user: str, *arguments: str, namespace: str | None = OWN) -> Result:
        file = tmp_path / f"{user}.yaml"
        file.write_text(plane.kubeconfig(user))
        monkeypatch.setenv("KUBECONFIG", str(file))
        print_progress_once.cache_clear()
        return CliRunner().invoke(app, [*arguments, *(["--namespace", namespace] if namespace else [])])

    return run_verb


@pytest.fixture
def job(plane: ControlPlane, run: Any, tmp_path: Path) -> Iterator[str]:
    """A running job of Ada, with a worker on a node without a kubelet. Each job has its own name, because Kubernetes deletes
    the objects of a job some time after the job."""
    name = f"job{next(NUMBERS)}"
    assert run("ada", "submit", write_job(tmp_path, name)).exit_code == 0
    objects, batch = Objects(plane, OWN), "batch/v1/jobs"
    template = objects.get(batch, name)["spec"]["template"]
    metadata = {"name": f"{name}-0", "labels": template["metadata"]["labels"]}
    pod = {"metadata": metadata, "spec": {**template["spec"], "nodeName": "node-1"}}
    objects.create("pods", pod)
    container = {"name": template["spec"]["containers"][0]["name"], "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    state = {**container, "state": {"running": {"startedAt": "2026-11-29T10:00:00Z"}}}
    objects.set_status("pods", f"{name}-0", phase="Running", containerStatuses=[state])
    yield name
    plane.send("root", "DELETE", f"/api/v1/namespaces/{OWN}/pods/{name}-0", {"gracePeriodSeconds": 0})
    run("ada", "cancel", name, "--no-wait")


def write_job(folder: Path, name: str, **more: Any) -> str:
    path = folder / f"{name}.yaml"
    least = {"name": name, "launcher": "torchrun", "pool": "train", "workers": 1, "image": "registry.example.com/i:1"}
    path.write_text(yaml.safe_dump({**least, "command": ["train"], **more}))
    return str(path)


def read_guide_table() -> dict[str, tuple[bool, bool]]:
    """Return whether `view` and `submit` suffice for each verb, as the guide says."""
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\| (yes|no)[^|]* \| (yes|no)[^|]* \|", GUIDE.read_text(), re.MULTILINE)
    return {verb: (view == "yes", submit == "yes") for verb, view, submit in rows}


def has_refused(done: Result) -> bool:
    """Return whether the API server has refused a request of the verb."""
    return "may not" in done.output


def test_the_guide_lists_every_verb_for_kubernetes() -> None:
    verbs = {*VERBS["EKS and existing Kubernetes clusters"], "status", "health", "dashboard"}
    assert set(read_guide_table()) == verbs


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_a_submitter_submits_and_deletes_a_job_of_each_launcher(
    launcher: str, plane: ControlPlane, run: Any, tmp_path: Path
) -> None:
    done = run("ada", "submit", write_job(tmp_path, f"own-{launcher}", launcher=launcher), "--json")
    assert done.exit_code == 0, done.output
    kinds = {name.partition("/")[0] for name in json.loads(done.stdout)["objects"]}
    assert not kinds & {"Role", "RoleBinding", "ServiceAccount"}
    done = run("ada", "delete", f"own-{launcher}")
    assert done.exit_code == 0 and "deleted" in done.output, done.output


VERB_CALLS: Mapping[str, list[str]] = {
    "status": ["status"],
    "health": ["health"],
    "jobs": ["jobs", "--all"],
    "goodput": ["goodput"],
    "logs": ["logs", "JOB"],
    "exec": ["exec", "JOB", "--", "true"],
    "cancel": ["cancel", "JOB", "--no-wait"],
    "delete": ["delete", "JOB"],
}


@pytest.mark.parametrize("user", ["eve", "ada"])
@pytest.mark.parametrize("verb", VERB_CALLS)
def test_a_verb_needs_the_access_that_the_guide_says(verb: str, user: str, run: Any, job: str, plane: ControlPlane) -> None:
    if verb == "delete":  # without a kubelet, pods stay
        plane.send("root", "DELETE", f"/api/v1/namespaces/{OWN}/pods/{job}-0", {"gracePeriodSeconds": 0})
    words = [job if word == "JOB" else word for word in VERB_CALLS[verb]]
    if verb == "exec":  # options after `--` would belong to the command
        words = ["exec", "--namespace", OWN, *words[1:]]
    done = run(user, *words, namespace=None if verb in ("exec", "health") else OWN)
    allowed = read_guide_table()[verb][user == "ada"]
    partial_reads = ("events of nodes", "journal of nodes", "GPUs in use: ")
    refused = [line for line in done.output.splitlines() if "may not" in line and not any(text in line for text in partial_reads)]
    assert (not refused) is allowed, done.output


@pytest.mark.parametrize("user", ["eve", "ada"])
def test_port_forward_needs_the_access_that_the_guide_says(user: str, plane: ControlPlane, tmp_path: Path, job: str) -> None:
    file = tmp_path / f"{user}.yaml"
    file.write_text(plane.kubeconfig(user))
    with pytest.raises(CommandError) as failed:
        PortConnection(Access(file).connect(), f"{job}-0", OWN, 80).receive()
    assert ("may not" not in str(failed.value)) is read_guide_table()["port-forward"][user == "ada"]


def test_a_viewer_cannot_submit(run: Any, tmp_path: Path) -> None:
    done = run("eve", "submit", write_job(tmp_path, "mine"))
    assert done.exit_code != 0 and "in namespace red; ask for access" in done.output


def test_a_submitter_sends_a_folder(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_cluster, "START_SECONDS", 0.1)  # the pod that receives the files never starts here
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    done = run("ada", "submit", write_job(tmp_path, "sent"), "--workdir", str(tmp_path / "code"))
    assert "the helper pod for job files did not start" in done.output and not has_refused(done), done.output


def test_a_user_of_one_namespace_gets_its_jobs_and_one_sentence_about_the_others(run: Any, job: str) -> None:
    done = run("eve", "jobs", "--all-namespaces", namespace=None)
    assert done.exit_code == 0 and "job" in done.stdout
    assert done.stderr.splitlines() == ["cluster: only namespace red: you have no access to others"]
    status = run("eve", "status", "--json", namespace=None)
    assert json.loads(status.stdout)["unknown"] == [
        "GPUs in use: you may not list the pods of all namespaces",
        "only namespace red: you have no access to others",
    ]


def test_the_dashboard_shows_the_jobs_of_a_viewer(plane: ControlPlane, tmp_path: Path, job: str) -> None:
    file = tmp_path / "eve.yaml"
    file.write_text(plane.kubeconfig("eve"))
    with _open_reader(None, tmp_path, Access(file)) as reader:
        reader.start()
        page = reader.build_page()
    assert job in json.dumps(page["jobs"]["rows"])


CORE, RBAC = "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1"
RECORD = {"metadata": {"name": "record", "labels": {RECORD_LABEL: "job"}}, "data": {RECORD_KEY: "{}"}}
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name_role("submit")}
BINDING = {"metadata": {"name": "more"}, "roleRef": ROLE_REF, "subjects": []}
REFUSED: Mapping[str, tuple[str, str, Any]] = {
    "jobs of another namespace": ("GET", f"/apis/batch/v1/namespaces/{OTHER}/jobs", None),
    "pods of all namespaces": ("GET", "/api/v1/pods", None),
    "exec in another namespace": ("POST", f"{CORE}/{OTHER}/pods/a/exec?command=id&stdout=1", None),
    "a pod in another namespace": ("POST", f"{CORE}/{OTHER}/pods", {"metadata": {"name": "a"}}),
    "secrets of the own namespace": ("GET", f"{CORE}/{OWN}/secrets", None),
    "a secret of the own namespace": ("GET", f"{CORE}/{OWN}/secrets/job-ssh", None),
    "secrets of kube-system": ("GET", f"{CORE}/kube-system/secrets", None),
    "the token of a service account": ("POST", f"{CORE}/{OWN}/serviceaccounts/mpi-job/token", {}),
    "a role": ("POST", f"{RBAC}/namespaces/{OWN}/roles", {"metadata": {"name": "more"}, "rules": []}),
    "a role binding": ("POST", f"{RBAC}/namespaces/{OWN}/rolebindings", BINDING),
    "a cluster role binding": ("POST", f"{RBAC}/clusterrolebindings", BINDING),
    "a changed record": ("PUT", f"{CORE}/{OWN}/configmaps/record", RECORD),
    "a record of another namespace": ("POST", f"{CORE}/{OTHER}/configmaps", RECORD),
    "ConfigMaps of the platform": ("GET", f"{CORE}/gpumpi-system/configmaps", None),
    "a pod of the platform": ("POST", f"{CORE}/gpumpi-system/pods", {"metadata": {"name": "a"}}),
    "a changed node": ("PATCH", "/api/v1/nodes/node-1", {"spec": {"unschedulable": True}}),
    "labels of the own namespace": ("PATCH", f"{CORE}/{OWN}", {"metadata": {"labels": {"a": "b"}}}),
}


@pytest.mark.parametrize("user", ["ada", "eve"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_job_user_may_not_leave_the_namespace_or_get_more_permissions(case: str, user: str, plane: ControlPlane) -> None:
    method, path, body = REFUSED[case]
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, answer = plane.send(user, method, path, body, content)
    assert (status, answer["reason"]) == (403, "Forbidden"), answer


def test_a_job_user_reads_the_description_and_nothing_else_of_the_platform(plane: ControlPlane) -> None:
    rules = {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"namespace": "gpumpi-system"},
    }
    status, answer = plane.send("ada", "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", rules)
    own = [rule for rule in answer["status"]["resourceRules"] if not rule["resources"][0].startswith("selfsubject")]
    assert status == 201 and sorted((rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in own) == [
        (["configmaps"], ["get"], ["gpumpi-cluster"]),
        (["nodes"], ["get", "list", "watch"], None),
    ]
