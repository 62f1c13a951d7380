"""`demo`: run the lifecycle of an EKS cluster in a local AWS."""

import json
from pathlib import Path
from typing import Any

from cli.clusters.status.node_rows import is_ready
from cli.demo.steps import CLUSTER, Steps, StepSkipped, require
from infra.naming import GPU_RESOURCE
from localcloud.images import build
from localcloud.images.catalogue import MPI_RECIPE, PLATFORM_IMAGES
from localcloud.kubernetes import capability

JOB_POOL = "efa"
NEW_MAX_SIZE = 6
BY_HAND = 9


class EksDemo(Steps):
    """Demo of an EKS cluster that runs an MPI job."""

    name = "demo"
    stack_name = "local"
    title = "The lifecycle of a GPU cluster in a local AWS, run by the real Pulumi engine. No account, no cost."
    goes_on = 'scripts/cluster local start; eval "$(scripts/cluster local env)"; pulumi up -s 02-p4d-efa'

    def steps(self) -> None:
        self.step("build the images", self.make_images)
        self.step("start the local cloud", self.start)
        self.step("preview", self.preview)
        self.step("create", self.create)
        self.step("check the nodes", self.check_nodes)
        self.step("run an MPI job", self.run_job)
        self.step("run again", self.check_second_up_changes_nothing)
        self.step("resize", self.resize_pool)
        self.step("refresh", self.refresh)
        self.step("revert the manual change", self.repair)
        self.step("destroy", self.destroy)
        self.step("check for leftovers", self.check_leftovers)
        self.step("stop the local cloud", self.stop, always=True)

    def make_images(self) -> str:
        """Build the images before the cluster is created, because a pending pod does not show why its image pull is
        slow or fails.
        """
        skip_if_no_containers("nodes on this machine do not pull images")
        for image in PLATFORM_IMAGES:
            build.ensure_image(image, self.print_progress)
        build.ensure_image(MPI_RECIPE, self.print_progress)
        return f"{len(PLATFORM_IMAGES) + 1} images, each built once and kept in {build.cache_folder()}"

    def start(self) -> str:
        self.cloud.stop()  # an interrupted demo may have left the local cloud running
        self.cloud.start(self.print_progress, kubernetes=True)
        self.stack.prepare()
        return f"AWS and Pulumi's providers on loopback; {capability.check_machine()}"

    def preview(self) -> str:
        run = self.run_pulumi("preview")
        require(not self.cloud.control().leftovers(), "a preview must not create resources")
        return f"{run.changes.get('create', 0)} resources to create"

    def create(self) -> str:
        run = self.run_pulumi("up")
        outputs = self.stack.outputs()
        pools = ", ".join(f"{pool['desiredSize']} x {pool['instanceType']}" for pool in outputs["pools"])
        return f"{run.changes.get('create', 0)} resources: {outputs['clusterName']} with {pools}"

    def check_nodes(self) -> str:
        """Check that all nodes are ready and that the device plugin advertises GPUs on the GPU nodes."""
        expected = sum(pool["desiredSize"] for pool in self.stack.outputs()["pools"])
        self.kubeconfig.write_text(self.stack.outputs(secrets=True)["kubeconfig"])
        self.kubeconfig.chmod(0o600)
        nodes = json.loads(self._run_with_kubeconfig("kubectl", "get", "nodes", "--output", "json"))["items"]
        ready = [node for node in nodes if is_ready(node)]
        with_gpus = [node for node in ready if int(node["status"]["allocatable"].get(GPU_RESOURCE, 0))]
        require(len(ready) == len(nodes), f"{len(nodes) - len(ready)} of {len(nodes)} nodes are not ready")
        require(len(with_gpus) == expected, f"{len(with_gpus)} nodes offer GPUs, expected {expected}")
        names = ", ".join(sorted(shorten_node_name(node["metadata"]["name"]) for node in with_gpus))
        return f"{len(ready)} ready, {len(with_gpus)} of them with GPUs: {names}"

    def run_job(self) -> str:
        """Run ranks on two nodes, started over SSH. The job itself fails unless each rank runs on the expected node."""
        skip_if_no_containers("nodes on this machine do not run containers")
        verdict = self._run_cluster_command("smoke", "--pool", JOB_POOL, "--workers", "2")
        reports = sorted(verdict["reports"], key=lambda report: int(report["rank"]))
        where = ", ".join(f"rank {report['rank']} on {shorten_node_name(report['node'])}" for report in reports)
        return f"{where}; the sum {reports[0]['sum']} is correct, by {verdict['expected']['transport']}"

    def resize_pool(self) -> str:
        self.stack.set_config("gpumpi:pools[0].maxSize", str(NEW_MAX_SIZE))
        run = self.run_pulumi("up")
        require(set(run.changed) == {"update"}, f"a resize must only update resources (changes: {run.changed})")
        self._check_max_size(NEW_MAX_SIZE)
        return f"maxSize is now {NEW_MAX_SIZE}, updated in place"

    def refresh(self) -> str:
        group = self._describe_node_group()
        self._eks_client().update_nodegroup_config(
            clusterName=group["clusterName"],
            nodegroupName=group["nodegroupName"],
            scalingConfig=group["scalingConfig"] | {"maxSize": BY_HAND},
        )
        run = self.run_pulumi("refresh")
        require(bool(run.changed), "the refresh did not detect the manual change")
        return f"detected maxSize {BY_HAND}, set outside Pulumi"

    def repair(self) -> str:
        self.run_pulumi("up")
        self._check_max_size(NEW_MAX_SIZE)
        return f"maxSize is {NEW_MAX_SIZE} again"

    @property
    def kubeconfig(self) -> Path:
        return self.cloud.folder / "project" / "kubeconfig.json"

    def _run_with_kubeconfig(self, *command: str) -> str:
        """Run a program with the cluster's kubeconfig and return its output. Raises StepFailed."""
        return self.command(*command, variables={"KUBECONFIG": str(self.kubeconfig)})

    def _run_cluster_command(self, *arguments: str) -> Any:
        """Return the output of `scripts/cluster ... --json`. Raises StepFailed."""
        return json.loads(self._run_with_kubeconfig(*CLUSTER, *arguments, "--json"))

    def _eks_client(self) -> Any:
        return self.cloud.clients(self.stack.region)("eks")

    def _describe_node_group(self) -> dict[str, Any]:
        """Return the node group of the first GPU pool, as EKS describes it."""
        outputs = self.stack.outputs()
        name = {"clusterName": outputs["clusterName"], "nodegroupName": outputs["pools"][0]["nodeGroup"]}
        group: dict[str, Any] = self._eks_client().describe_nodegroup(**name)["nodegroup"]
        return group

    def _check_max_size(self, expected: int) -> None:
        size = self._describe_node_group()["scalingConfig"]["maxSize"]
        require(size == expected, f"EKS reports maxSize {size}, expected {expected}")


def skip_if_no_containers(otherwise: str) -> None:
    """Raise StepSkipped if nodes on this machine cannot run containers."""
    if not (machine := capability.check_machine()).real_nodes:
        raise StepSkipped(f"{otherwise}: {'; '.join(machine.missing)}")


def shorten_node_name(node: str) -> str:
    """Return the name of a node without its domain."""
    return node.partition(".")[0]
