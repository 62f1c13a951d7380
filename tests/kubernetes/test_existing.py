"""A stack with `target.kind: existing` on a real cluster: the same platform and jobs, without AWS calls."""

import base64
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import preflight
from infra.config.stack_file import RawStack
from infra.versions import KUEUE
from localcloud import mirror
from localcloud.instance import LocalCloud
from localcloud.kubernetes import pki
from localcloud.stack import LocalStack
from testkit.eks_clusters import Account, Running
from testkit.former_program import use_program
from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, write_job_file
from testkit.node_groups import GPU_TAINT, create_node_group
from testkit.waiting import wait_until
from tests.kubernetes import former_queue

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.mission_only]

POOL = {"name": "rack1", "nodeSelector": {"example.com/rack": "1"}, "gpusPerNode": 1, "nodes": 2}
WITHOUT_GPUS = {"name": "rack2", "nodeSelector": {"example.com/rack": "2"}, "gpusPerNode": 1, "nodes": 1}
RING = """
from mpi4py import MPI
world = MPI.COMM_WORLD
lines = world.gather(f"rank {world.rank} of {world.size} sum {world.allreduce(world.rank + 1)}")
if world.rank == 0:
    print("\\n".join(lines), flush=True)
"""
HELD = f"""
import os
try:
    os.mkfifo("/tmp/go")
except FileExistsError:
    pass
open("/tmp/go").read()
{RING}
"""
"""Program in which each rank waits until the test writes to /tmp/go in the rank's pod."""
PASSING = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")
"""Resource types whose objects a cluster creates and deletes on its own."""
Values = Mapping[str, Any]


class WithoutAws(LocalCloud):
    """A local cloud whose user has no AWS credentials."""

    def process_environment(self) -> dict[str, str]:
        environment = {key: value for key, value in super().process_environment().items() if not key.startswith("AWS_")}
        nothing = dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), "/nonexistent")
        return {**environment, **nothing, "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class Rack:
    """A user's cluster without the platform: two tainted GPU nodes and one node without GPUs."""

    running: Running
    jobs: JobCluster
    folder: Path

    def values(self, kubeconfig: Path, pools: Sequence[Values], manifests: Path | None = None) -> Values:
        """Return the stack file's settings for this cluster."""
        platform = {
            "cpuRequestFactor": 0.05,
            "manifestMirror": str(manifests or mirror.ensure_mirror(print)),
            "imageRepository": "registry.example.com:5000/team",
        }
        target = {"kind": "existing", "kubeconfig": {"path": str(kubeconfig)}}
        return {"target": target, "pools": list(pools), "platform": platform}

    def stack(self, name: str, kubeconfig: Path, pools: Sequence[Values] = (POOL,), manifests: Path | None = None) -> LocalStack:
        """Write the stack file; return the stack."""
        config = {f"gpumpi:{key}": value for key, value in self.values(kubeconfig, pools, manifests).items()}
        (self.folder / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": config}))
        stack = LocalStack(self.jobs.cloud, name, self.folder)
        stack.prepare()
        return stack

    def find_problems(self, kubeconfig: Path, pools: Sequence[Values] = (POOL,)) -> list[str]:
        """Return the problems that the checks of `up` find before `up` changes anything."""
        examined = preflight.examine_existing_stack(RawStack("mine", "", dict(self.values(kubeconfig, pools))))
        return [*map(str, examined.problems), *([examined.not_queried] if examined.not_queried else [])]

    def nodes(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.jobs.kubectl("get", "nodes", "-o", "json").json["items"]
        return items

    def list_node_taints(self) -> list[str]:
        """Return the taints that Kubernetes puts on nodes that are not ready."""
        taints = [taint["key"] for node in self.nodes() for taint in node["spec"].get("taints", ())]
        return [key for key in taints if key.startswith("node.kubernetes.io/")]

    def list_content(self) -> set[str]:
        """Return the kind, namespace and name of each object in the cluster, and the labels and taints of each node."""
        kinds = self.jobs.kubectl("api-resources", "--verbs=list", "-o", "name").out.split()
        columns = "custom-columns=KIND:.kind,IN:.metadata.namespace,NAME:.metadata.name"
        listed = self.jobs.kubectl("get", ",".join(set(kinds) - set(PASSING)), "-A", "--no-headers", "-o", columns)
        if listed.code:  # a kind may have been deleted after `api-resources` listed it
            return {listed.err}
        return {" ".join(line.split()) for line in listed.out.splitlines()} | {
            f"{node['metadata']['name']} {sorted(node['metadata']['labels'].items())} {node['spec'].get('taints')}"
            for node in self.nodes()
        }


def write_kubeconfig(file: Path, running: Running, user: Mapping[str, str]) -> Path:
    """Write a kubeconfig like the one that kubeadm writes, which does not call AWS."""
    authority = base64.b64encode((running.folder / "pki" / "ca.crt").read_bytes()).decode()
    cluster = {"server": running.describe()["endpoint"], "certificate-authority-data": authority}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin@rack",
        "clusters": [{"name": "rack", "cluster": cluster}],
        "contexts": [{"name": "admin@rack", "context": {"cluster": "rack", "user": "admin"}}],
        "users": [{"name": "admin", "user": dict(user)}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def encode_certificate(issued: pki.Certificate) -> dict[str, str]:
    encoded = {"client-certificate-data": issued.file, "client-key-data": issued.key}
    return {key: base64.b64encode(file.read_bytes()).decode() for key, file in encoded.items()}


@pytest.fixture(scope="module")
def rack(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    folder = tmp_path_factory.mktemp("existing")
    running = account.create("rack")
    gpus = {"amiType": "AL2023_x86_64_NVIDIA", "labels": POOL["nodeSelector"], "taints": [GPU_TAINT]}
    with (
        create_node_group(running, "system", 1, "m5.large", labels=WITHOUT_GPUS["nodeSelector"]),
        create_node_group(running, "train", 2, "g5.8xlarge", **gpus) as train,
    ):
        assert train.describe()["status"] == "ACTIVE", train.describe()["health"]
        own = pki.Certificate(running.folder / "pki" / "admin.crt", running.folder / "pki" / "admin.key")
        kubeconfig = write_kubeconfig(folder / "admin.conf", running, encode_certificate(own))
        new_rack = Rack(running, JobCluster(WithoutAws(account.cloud.folder), kubeconfig), folder)
        wait_until(new_rack.list_node_taints, lambda states: not states, 60)
        yield new_rack
    running.delete()


def test_an_expired_certificate_is_reported_and_nothing_is_created(
    rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rack.list_content()
    for name in ("ca.crt", "ca.key"):
        shutil.copy(rack.running.folder / "pki" / name, tmp_path)
    monkeypatch.setattr(pki, "SKEW", timedelta(days=365))
    monkeypatch.setattr(pki, "LIFETIME", timedelta(days=-1))
    expired = pki.Authority(tmp_path).issue("kubernetes-admin", organizations=[pki.MASTERS])
    stack = rack.stack("expired", write_kubeconfig(tmp_path / "admin.conf", rack.running, encode_certificate(expired)))
    done = stack.run("up")
    assert not done.ok
    assert (
        f"target.kubeconfig: {rack.running.describe()['endpoint']} rejects the credentials of context admin@rack. "
        "They may have expired; renew them"
    ) in " ".join(done.errors)
    types = [resource["type"] for resource in stack.export_state()["deployment"].get("resources", ())]
    assert set(types) <= {"pulumi:pulumi:Stack"}
    assert rack.list_content() == before


def test_missing_permissions_and_unknown_users_are_reported(rack: Rack, tmp_path: Path) -> None:
    rack.jobs.kubectl("create", "serviceaccount", "visitor")
    try:
        token = rack.jobs.kubectl("create", "token", "visitor").out.strip()
        visitor = write_kubeconfig(tmp_path / "visitor.conf", rack.running, {"token": token})
        assert rack.find_problems(visitor) == [
            "target.kubeconfig: the credentials of context admin@rack may not read /api/v1/namespaces/kube-system/pods. "
            "`pulumi up` needs cluster-admin permissions"
        ]
    finally:
        rack.jobs.kubectl("delete", "serviceaccount", "visitor")
    stranger = write_kubeconfig(tmp_path / "stranger.conf", rack.running, {"token": "of another cluster"})
    (problem,) = rack.find_problems(stranger)
    assert "rejects the credentials of context admin@rack. They may have expired" in problem


@pytest.mark.mission("E", "existing cluster")
@pytest.mark.mission("E", "device plugin")
def test_the_platform_can_be_installed_run_jobs_and_be_removed_without_aws_calls(rack: Rack, tmp_path: Path) -> None:
    before, control, admin = rack.list_content(), rack.running.cloud.control(), rack.jobs.kubeconfig
    control.reset_call_counts()
    stack = rack.stack("mine", admin)
    checked = rack.jobs.cluster("validate", "-s", "mine", "--config-dir", str(rack.folder))
    assert checked.code == 0 and "no device plugin has reported the number yet" in checked.out, checked.out + checked.err
    up = stack.run("up")
    assert up.ok, up.output[-4000:]
    again = stack.run("up")
    assert again.ok and not again.changed, again.output[-4000:]

    smoke = rack.jobs.cluster("smoke", "--pool", "rack1")
    assert smoke.code == 0 and "ok: 4 passed (ranks, workers, sum over all ranks, MPI transport)" in smoke.out, smoke.out
    ring = rack.jobs.cluster(
        "submit", write_job_file(tmp_path, "ring", pool="rack1", command=build_python_command(RING)), "--follow"
    )
    assert ring.code == 0, ring.out + ring.err
    lines = [line for line in ring.out.splitlines() if line.startswith("rank ")]
    assert lines == ["rank 0 of 2 sum 3", "rank 1 of 2 sum 3"], ring.out

    check_pool_mismatches(rack)
    down = stack.run("destroy")
    assert down.ok, down.output[-4000:]
    assert wait_until(rack.list_content, lambda now: now == before, 60) == before
    assert rack.find_problems(admin) == [], "the same cluster can be used again"
    assert control.calls()["operations"] == {}


def check_pool_mismatches(rack: Rack) -> None:
    """While a device plugin runs, each node reports its number of GPUs. If a stack file claims more GPUs, `up` changes
    nothing.
    """
    admin, both = rack.jobs.kubeconfig, (POOL, WITHOUT_GPUS)
    (fewer,) = rack.find_problems(admin, [{**POOL, "gpusPerNode": 4}])
    assert fewer.startswith("pools[0].gpusPerNode: is 4, but ip-10-0-") and "offers 1. Set 1, or put" in fewer
    stack = rack.stack("mine", admin, both)
    first = stack.run("up")
    assert first.ok, first.output[-4000:]
    # the plugin's pods were replaced; until the new ones report, the first pool's nodes offer no GPUs either
    (problem,) = wait_until(
        lambda: rack.find_problems(admin, both), lambda problems: len(problems) == 1 and problems[0].startswith("pools[1]"), 60
    )
    assert problem.startswith("pools[1].gpusPerNode: is 1, but ip-10-0-")
    assert "offers no GPUs: the device plugin there finds none. Check the driver there with `nvidia-smi`" in problem
    refused = stack.run("up")
    assert not refused.ok and not refused.changed and problem in " ".join(refused.errors), refused.output[-4000:]


@pytest.mark.mission("E", "existing cluster")
def test_kueue_can_be_upgraded_with_a_running_and_a_queued_job(rack: Rack, tmp_path: Path) -> None:
    before, jobs = rack.list_content(), rack.jobs
    manifests = former_queue.fill_mirror(tmp_path / "mirror")
    stack = rack.stack("mine", jobs.kubeconfig, manifests=manifests)
    use_program(stack, former_queue.build_former_program(tmp_path / "former", manifests))
    up = stack.run("up")
    assert up.ok, up.output[-4000:]
    for name, program, phase in (("works", HELD, "Running"), ("waits", RING, "Queued")):
        done = jobs.cluster("submit", write_job_file(tmp_path, name, pool="rack1", command=build_python_command(program)))
        assert done.code == 0, done.err
        assert jobs.await_phase(name, phase) == phase
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in jobs.pods("works")}

    use_program(stack)
    up = stack.run("up")
    assert up.ok, up.output[-4000:]
    assert "replace" not in up.changed and "delete" not in up.changed, up.output[-4000:]
    (controller,) = jobs.list_objects("deployments", namespace="kueue-system")
    assert controller["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f":{KUEUE}")

    assert (jobs.read_phase("works"), jobs.read_phase("waits")) == ("Running", "Queued")
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in jobs.pods("works")} == pods
    for pod in jobs.pods("works", "worker"):
        assert jobs.kubectl("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", "sh", "-c", "echo > /tmp/go").code == 0
    for name in ("works", "waits"):
        assert jobs.await_phase(name, "Succeeded", "Failed") == "Succeeded"
        assert jobs.cluster("cancel", name).code == 0
    down = stack.run("destroy")
    assert down.ok, down.output[-4000:]
    assert wait_until(rack.list_content, lambda now: now == before, 60) == before
