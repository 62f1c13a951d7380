"""`demo --heal`: a GPU fails while a job runs. The job finishes on another node, and the repaired node accepts jobs
again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import yaml
from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from cli.demo.eks_demo import JOB_POOL, EksDemo, shorten_node_name
from cli.demo.steps import CLUSTER, StepFailed, require
from infra.platform.job_controller.in_pod.moments import parse_time
from localcloud.images import build
from localcloud.images.catalogue import OPENMPI_5

NAME: Final = "train"
XID: Final = 79
LIMIT_SECONDS: Final = 180.0
STEPS, SAVED_EVERY, SEEN = 30, 5, 7
PROGRAM: Final = f"""
import itertools, pathlib, time
saved = pathlib.Path("/shared/demo-heal")
first = int(saved.read_text()) if saved.exists() else 0
for step in range(first + 1, first + {STEPS} + 1) if first else itertools.count(1):
    time.sleep(0.5)
    print("step", step, flush=True)
    if step % {SAVED_EVERY} == 0:
        saved.write_text(str(step))
"""
"""Program that simulates a training job and saves its progress on the shared volume.

The first attempt runs until it is stopped, because on a slow machine it could otherwise finish before the node is taken
out of service. After the restart, the program runs STEPS more steps.
"""

Answer = TypeVar("Answer")


@dataclass
class HealDemo(EksDemo):
    """Demo of a job that survives the loss of its node."""

    name = "demo-heal"
    stack_name = "local"
    title = "A GPU fails under a running job in a local AWS. No account, no GPU, no cost: the fault is simulated."
    goes_on = "docs/guides/broken-nodes.md"

    node: str = ""
    """Node on which the job's first attempt runs."""
    broken: datetime = field(default_factory=lambda: datetime.now(UTC))

    def steps(self) -> None:
        self.step("build the images", self.make_images)
        self.step("start the local cloud", self.start)
        self.step("create", self.create)
        self.step("check the nodes", self.check_nodes)
        self.step("start a job", self.start_job)
        self.step("break the GPU of its node", self.break_gpu)
        self.step("take the node out of service", self.wait_for_cordon)
        self.step("finish the job on another node", self.wait_for_job_end)
        self.step("reboot the node, and verify it", self.reboot_node)
        self.step("show where the time went", self.show_goodput)
        self.step("stop the local cloud", self.stop, always=True)

    def make_images(self) -> str:
        said = super().make_images()
        build.ensure_image(OPENMPI_5, self.print_progress)
        return said

    def start_job(self) -> str:
        """Start a job with one worker, and wait until it has saved a checkpoint."""
        job = {
            **{"name": NAME, "pool": JOB_POOL, "workers": 1, "image": "openmpi:5", "maxRestarts": 0},
            "command": ["python3", "-u", "-c", PROGRAM],
            "progress": {"pattern": r"step (?P<step>\d+)", "within": "5m"},
        }
        file = self.cloud.folder / "project" / "train.yaml"
        file.write_text(yaml.safe_dump(job))
        self._run_with_kubeconfig(*CLUSTER, "submit", str(file))
        _wait_for(self._count_finished_steps, lambda steps: steps >= SEEN, "the first steps of the job")
        (row,) = [node for node in self._run_cluster_command("health")["nodes"] if node["jobs"]]
        self.node = row["name"]
        return f"step {SEEN} on {shorten_node_name(self.node)}; {SAVED_EVERY} steps are saved; maxRestarts is 0"

    def break_gpu(self) -> str:
        self.broken = datetime.now(UTC)
        self._run_with_kubeconfig(*CLUSTER, "local", "break", self.node, "--xid", str(XID), "--home", str(self.cloud.folder))
        return f"Xid {XID} on {shorten_node_name(self.node)}: the GPU has fallen off the bus (simulated)"

    def wait_for_cordon(self) -> str:
        events = _wait_for(
            lambda: self._run_cluster_command("health", self.node)["history"],
            lambda history: any(entry["source"] == "controller" for entry in history),
            "the job controller",
        )
        taken = next(entry for entry in events if entry["source"] == "controller")
        return f"{self._seconds_since(taken['at'])} s after the fault: {taken['text']}"

    def wait_for_job_end(self) -> str:
        record = _wait_for(
            self._read_job_record,
            lambda job_record: job_record["phases"][-1]["phase"] in ("Succeeded", "Failed"),
            "the job to end",
        )
        require(record["phases"][-1]["phase"] == "Succeeded", f"the job failed: {record['attempts'][-1]['cause']}")
        first, second = record["attempts"]
        counts = f"{record['disruptions']} disruption, {record['failures']} failures"
        require(first["outcome"] == "Disrupted", f"the first attempt counts as {first['outcome']}")
        return f"its ranks run again {self._seconds_since(second['running'])} s after the fault and finish; {counts}"

    def reboot_node(self) -> str:
        """Reboot the node at once; EKS's node auto repair would reboot it only after ten minutes."""
        instance = self._run_cluster_command("health", self.node)["instance"]
        began = datetime.now(UTC)
        self.cloud.clients(self.stack.region)("ec2").reboot_instances(InstanceIds=[instance])
        _wait_for(
            lambda: self._run_cluster_command("health", self.node)["state"],
            lambda state: state == "healthy",
            f"{self.node} to be healthy",
        )
        seconds = (datetime.now(UTC) - began).total_seconds()
        node = shorten_node_name(self.node)
        return f"{node} accepts jobs again {seconds:.0f} s after the reboot, once its GPU has worked for 30 s"

    def show_goodput(self) -> str:
        (account,) = self._run_cluster_command("goodput", NAME)["jobs"]
        spent = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in account["seconds"].items() if seconds >= 1)
        return f"goodput {account['goodput']:.0%}: {spent}"

    def _seconds_since(self, at: str) -> int:
        return max(0, round((parse_time(at) - self.broken).total_seconds()))

    def _read_job_record(self) -> dict[str, Any]:
        (record,) = [job for job in self._run_cluster_command("jobs", "--all") if job["name"] == NAME]
        return dict(record)

    def _count_finished_steps(self) -> int:
        try:
            return self._run_with_kubeconfig(*CLUSTER, "logs", NAME).count("step")
        except StepFailed:  # the job has no pod yet
            return 0


def _wait_for(look: Callable[[], Answer], is_there: Callable[[Answer], object], what: str) -> Answer:
    again = retry_if_not_result(lambda answer: bool(is_there(answer)))
    try:
        return Retrying(retry=again, wait=wait_fixed(0.5), stop=stop_after_delay(LIMIT_SECONDS))(look)
    except RetryError:
        raise StepFailed(f"waited {LIMIT_SECONDS:.0f} s for {what}") from None
