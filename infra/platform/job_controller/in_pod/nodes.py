"""Concern: take broken nodes out of service, and return them after their repair. `infra/health` decides what to do."""

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from infra.health import healing, journal
from infra.health.annotation import LONGEST_GRACE_SECONDS
from infra.health.healing import Policy, Pool
from infra.health.journal import Journal

from .actions import Action, DeletePod, send_if_exists
from .api import MERGE, Api, Object, build_resource_path, find_object, write_object
from .health import Guard
from .job import ManagedJob, explain_missing_kubelet, is_deleted, is_live, is_terminal
from .silence import Silence

VARIABLE = "GPUMPI_NODES"
"""Environment variable: the nodes that the controller may take out of service, as JSON. Without it, the controller
leaves nodes alone."""
DEFAULT_GRACE_SECONDS = 30
"""https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"""


def read_policy(text: str | None) -> Policy | None:
    """
    >>> read_policy('{"pools": [{"labels": {"pool": "train"}, "gpus": 8}], "existing": true}').existing
    True
    """
    if not text:
        return None
    document = json.loads(text)
    pools = tuple(Pool(pool["labels"], pool["gpus"]) for pool in document["pools"])
    return Policy(pools, bool(document.get("existing")))


class Nodes:
    """Takes broken nodes out of service. It acts only on the state of the nodes, their leases and the journal. After a
    restart, it needs some seconds to notice a silent node.
    """

    def __init__(self, api: Api, namespace: str, policy: Policy, silence: Silence | None = None) -> None:
        self._api, self._policy = api, policy
        self._silence = silence or Silence(api)
        self._path = f"api/v1/namespaces/{namespace}/configmaps"
        self._namespace = namespace
        self._guard = Guard()
        self._stored: Object | None = None
        """The ConfigMap of the journal as last read from the API server; None before the first read."""

    @classmethod
    def from_environment(cls, api: Api) -> "Nodes | None":
        of_nodes = read_policy(os.environ.get(VARIABLE))
        return None if of_nodes is None else cls(api, os.environ["POD_NAMESPACE"], of_nodes)

    def run_round(self, nodes: Sequence[Object], pods: Sequence[Object], jobs: Sequence[ManagedJob], now: datetime) -> None:
        """Write the journal, then change nodes, then end the pods of jobs that must leave a node."""
        stored = self._read_journal()
        silent = self._silence.find_silent_nodes(nodes)
        plan = healing.plan_round(
            nodes, stored, find_busy_nodes(pods), now.astimezone(UTC).replace(microsecond=0), self._policy, silent
        )
        if plan.journal != stored and not self._write_journal(plan.journal):
            return  # another controller has written the journal; the next round starts from there
        for patch in plan.patches:
            self._guard.run(f"node {patch.node}", partial(self._patch_node, patch))
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        for job in jobs:
            about = f"{job.namespace}/{job.name}"
            for action in self._guard.run(f"nodes of {about}", partial(_end_pods, nodes, job)) or ():
                print(f"nodes: {action}", flush=True)
                self._guard.run(f"pods of {about}", partial(action.perform, self._api, stamp))

    def _patch_node(self, patch: healing.Patch) -> None:
        # If the node has changed or was deleted, the next round decides again.
        if send_if_exists(self._api, "PATCH", build_resource_path("api/v1/nodes/{}", patch.node), dict(patch.body), MERGE):
            print(f"{patch.node}: {patch.what}", flush=True)

    def _read_journal(self) -> Journal:
        if self._stored is None:
            self._stored = find_object(self._api, f"{self._path}/{journal.CONFIG_MAP}")
        if self._stored is None:
            return journal.create_journal()
        return journal.parse_journal((self._stored.get("data") or {}).get(journal.KEY))

    def _write_journal(self, new: Journal) -> bool:
        metadata = self._stored["metadata"] if self._stored else {"name": journal.CONFIG_MAP, "namespace": self._namespace}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {journal.KEY: journal.serialize_journal(new)},
        }
        stored, self._stored = self._stored, None
        self._stored = write_object(self._api, self._path, stored, body)
        if self._stored is None:
            print("journal of nodes: another client has changed it", file=sys.stderr, flush=True)
        return self._stored is not None


def find_busy_nodes(pods: Sequence[Object]) -> dict[str, int]:
    """Return the nodes that run pods, each with the longest grace period of its pods, in seconds."""
    grace_periods: dict[str, int] = {}
    for spec in (pod["spec"] for pod in pods if pod["spec"].get("nodeName") and not is_terminal(pod)):
        grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        grace_periods[spec["nodeName"]] = min(max(grace, grace_periods.get(spec["nodeName"], 0)), LONGEST_GRACE_SECONDS)
    return grace_periods


def _end_pods(nodes: Sequence[Object], job: ManagedJob) -> list[Action]:
    return [*end_leaving_pods(nodes, [job]), *end_stranded_pods(nodes, [job])]


def end_stranded_pods(nodes: Sequence[Object], jobs: Sequence[ManagedJob]) -> list[Action]:
    """Return actions that force-delete terminating pods whose kubelet or node is gone.

    Kubernetes keeps such a pod until the node returns or its Node object is deleted, because a copy of it may still run:
    https://kubernetes.io/docs/tasks/run-application/force-delete-stateful-set-pod/
    Ranks cannot continue there: MPI and torchrun stop all ranks of a job when one is lost.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    return [
        DeletePod.for_pod(pod, 0)
        for job in jobs
        if job.policy
        for pod in job.pods
        if is_deleted(pod) and explain_missing_kubelet(pod, by_name)
    ]


def end_leaving_pods(nodes: Sequence[Object], jobs: Sequence[ManagedJob]) -> list[Action]:
    """Return actions that end pods whose jobs must leave a node. `restarts.py` restarts each job as a whole."""
    drained = healing.find_draining_nodes(nodes)
    return [
        DeletePod.for_pod(pod, None)
        for job in jobs
        if job.policy and not job.verdict
        for pod in job.pods
        if pod["spec"].get("nodeName") in drained and is_live(pod)
    ]
