"""Starts and stops local clusters on EKS events: https://docs.aws.amazon.com/eks/latest/userguide/clusters.html"""

import logging
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from localcloud import problems
from localcloud.aws import control_actions, events, gateway, patching
from localcloud.aws.call import backend_of
from localcloud.aws.eks import clusters as eks_clusters
from localcloud.aws.eks.node_groups.tags import CLUSTER_TAG
from localcloud.aws.eks.state import Eks
from localcloud.aws.events import DONE, WAIT, Event, Kind, Progress
from localcloud.aws.listening import Serve
from localcloud.aws.patching import get_state
from localcloud.kubernetes import capability, node_templates
from localcloud.kubernetes.cluster import Cluster, read_ca_certificate
from localcloud.kubernetes.nodes import ranks
from localcloud.kubernetes.nodes.fleet import Fleet

log = logging.getLogger(__name__)

Key = tuple[str, str, str]
_realizers: list["Realizer"] = []
"""The realizer of this process, if there is one."""
_broken_ranks = ranks.BrokenRanks()


class Realizer:
    """Runs one local cluster per EKS cluster, and stops it when the EKS cluster is deleted."""

    def __init__(self, folder: Path, aws: tuple[str, int], serve: Serve) -> None:
        self._folder, self._aws, self._serve = folder, aws, serve
        self._capability = capability.check_machine()
        self._clusters: dict[Key, Cluster] = {}
        self._start_errors: dict[Key, str] = {}
        """Maps an EKS cluster to the reason why its local cluster failed to start. EKS then reports that the creation failed."""
        self._instances: dict[str, Key] = {}
        self._ending: list[Cluster] = []
        self._shown: dict[str, tuple[str, list[str]]] = {}
        self._count = 0
        self._changes: queue.SimpleQueue[Cluster] = queue.SimpleQueue()
        self._unshown: dict[str, str] = {}
        """Maps the ID of a cluster to the reason why its state could not be reported to EKS."""
        self._publisher = threading.Thread(target=self._publish_changes, name="kubernetes-realizer", daemon=True)
        self._publisher.start()
        log.info("%s", self._capability)
        self._unregister = events.register_realizer(self.handle_event, self.progress)
        patching.on_reset(self.stop_all)
        _realizers.append(self)

    def list_clusters(self) -> list[Cluster]:
        return list(self._clusters.values())

    def close(self) -> None:
        """Unregister, stop all clusters and wait until they are removed."""
        self._unregister()
        _realizers.remove(self)
        self.stop_all()
        for cluster in self._ending:
            cluster.wait()

    def stop_all(self) -> None:
        """Start stopping all clusters, each in its own thread. Do not wait for the threads, since they may need the
        lock that the caller holds."""
        for cluster in self.list_clusters():
            self._stop_cluster(cluster)
        self._clusters.clear()
        self._start_errors.clear()
        self._instances.clear()

    def handle_event(self, event: Event) -> None:
        """Handle an event without blocking the AWS request that caused it: each cluster handles its events in its own
        thread."""
        match event.kind:
            case "cluster":
                self._handle_cluster(event)
            case "node-group" | "add-on":
                key = (event.account, event.region, event.name.split("/", 1)[0])
                if key in self._clusters:
                    self._clusters[key].handle(event)
            case "instance":
                self._handle_instance(event)

    def progress(self, kind: Kind, name: str, region: str, account: str) -> Progress:
        key = self._instances.get(name) if kind == "instance" else (account, region, name.split("/", 1)[0])
        if key is None:
            return DONE  # the instance does not belong to any cluster
        cluster = self._clusters.get(key)
        if cluster is None:
            problem = self._start_errors.get(key, "")
            return Progress(True, problem or (f"cluster {key[2]} is not running" if kind in ("node-group", "add-on") else ""))
        if (problem := self._unshown.get(cluster.id, "")) or not self._publisher.is_alive():
            return Progress(True, problem or "the thread that publishes the state of clusters has ended")
        if cluster.phase == "ready" and self._shown.get(cluster.id) != _build_published_state(cluster):
            return WAIT  # EKS must not report ACTIVE with an outdated endpoint
        return cluster.progress(kind, name)

    def _handle_cluster(self, event: Event) -> None:
        key = (event.account, event.region, event.name)
        cluster = self._clusters.get(key)
        if event.action == "created":
            try:
                self._clusters[key] = self._create_cluster(event)
                self._start_errors.pop(key, None)
            except Exception as error:
                log.exception("cluster %s failed to start", event.name)
                self._start_errors[key] = str(error) or repr(error)
        elif cluster is None:
            return
        elif event.action == "updating":
            self._start_update(cluster, event.details)
        elif event.action == "gone":
            self._stop_cluster(self._clusters.pop(key))
        elif event.details["status"] == "DELETING":
            self._stop_cluster(cluster)

    def _stop_cluster(self, cluster: Cluster) -> None:
        self._ending = [other for other in self._ending if not other.is_gone]
        self._ending.append(cluster)
        cluster.end()

    def _create_cluster(self, event: Event) -> Cluster:
        vpc = event.details["resourcesVpcConfig"]
        eks_cluster = get_state(backend_of("eks", event.account, event.region), Eks).clusters[event.name]
        ec2 = backend_of("ec2", event.account, event.region)
        self._count += 1
        cluster = Cluster(
            number=self._count,
            name=event.name,
            region=event.region,
            account=event.account,
            vpc=IPv4Network(ec2.get_vpc(vpc["vpcId"]).cidr_block),
            services=IPv4Network(event.details["kubernetesNetworkConfig"]["serviceIpv4Cidr"]),
            issuer=eks_cluster.endpoint.issuer,
            is_public=vpc["endpointPublicAccess"],
            folder=self._folder,
            aws=self._aws,
            serve=self._serve,
            on_change=self._changes.put,
            namespaces=self._capability.real_nodes,
        )
        cluster.start()
        return cluster

    def _start_update(self, cluster: Cluster, update: Mapping[str, Any]) -> None:
        """Start an update. EKS reports the update as InProgress until the restart has finished."""
        params = {item["type"]: item["value"] for item in update["params"]}
        if update["type"] == "VersionUpdate":
            cluster.restart_api_server()
        elif update["type"] == "EndpointAccessUpdate":
            cluster.set_public_access(params["EndpointPublicAccess"] == "true")

    def _handle_instance(self, event: Event) -> None:
        tags = {tag["Key"]: tag["Value"] for tag in event.details.get("Tags", [])}
        key = self._instances.get(event.name)
        if key is None and CLUSTER_TAG in tags:
            key = (event.account, event.region, tags[CLUSTER_TAG])
        if key not in self._clusters:
            return
        self._instances[event.name] = key
        self._clusters[key].handle(event)
        if event.action == "gone":
            del self._instances[event.name]

    def _publish_changes(self) -> None:
        """Publish changes from a separate thread. Several changes of a cluster are published together.

        A cluster's thread must never wait for the local AWS's lock, because the lock's owner may be waiting for
        the cluster.
        """
        while True:
            changed = {self._changes.get()}
            with suppress(queue.Empty):
                while True:
                    changed.add(self._changes.get_nowait())
            for cluster in changed:
                try:
                    with gateway.LOCK:
                        self._publish_state(cluster)
                    self._unshown.pop(cluster.id, None)
                except Exception as error:
                    self._unshown[cluster.id] = problems.report_problem(f"publishing the state of cluster {cluster.name}", error)

    def _publish_state(self, cluster: Cluster) -> None:
        """Make EKS report a cluster's endpoint and problems."""
        where = cluster.account, cluster.region, cluster.name
        if cluster.phase != "ready" or self._clusters.get(where) is not cluster:
            return
        new = endpoint, crashes = _build_published_state(cluster)
        if self._shown.get(cluster.id) != new:
            eks_clusters.set_endpoint(*where, endpoint, read_ca_certificate(cluster))
            eks_clusters.set_health_issues(*where, crashes)
            self._shown[cluster.id] = new
        node_templates.update_template_tags(*where, cluster.get_part(Fleet).has_room)


def _build_published_state(cluster: Cluster) -> tuple[str, list[str]]:
    """Return the endpoint and the crash reports of a cluster."""
    return cluster.endpoint, [str(crash) for crash in cluster.supervisor.list_crashes()]


@control_actions.action("POST", "kubernetes/restart-crashed")
def _restart_crashed(_: Any) -> Any:
    """Restart the crashed processes of all clusters. `repairs` in a cluster's state counts the completed restarts."""
    for realizer in _realizers:
        for running in realizer.list_clusters():
            if running.supervisor.list_crashes():
                running.schedule_repair()
    return {}


@control_actions.action("POST", "kubernetes/{region}/{cluster}/restart-api-server")
def _restart_api_server(_: Any, region: str, cluster: str) -> Any:
    """Restart the API server, as EKS does from time to time. Clients must tolerate such restarts."""
    for running in [running for realizer in _realizers for running in realizer.list_clusters()]:
        if (running.region, running.name) == (region, cluster):
            running.restart_api_server()
            return {}
    raise ValueError(f"no cluster {cluster} is running in {region}")


@control_actions.action("POST", "kubernetes/nodes/{node}/{part}")
def _switch_node_part(body: Any, node: str, part: str) -> Any:
    """Switch a node's `kubelet` or `link` off or back on."""
    ready = [running for realizer in _realizers for running in realizer.list_clusters() if running.phase == "ready"]
    real_node = next(filter(None, (running.get_part(Fleet).node(node) for running in ready)), None)
    if real_node is None:
        raise ValueError(f"no real node {node} is running")
    match part, bool(body["on"]):
        case "kubelet", False:
            real_node.stop_kubelet()
        case "kubelet", True:
            real_node.start_kubelet()
        case "link", on:
            real_node.set_link(up=on)
        case _:
            raise ValueError(f"{part}: kubelet or link")
    return {}


@control_actions.action("POST", "kubernetes/jobs/{job}/ranks")
def _break_rank(body: Any, job: str) -> Any:
    """Make a rank of a job hang (`hang`) or run slowly (`slow`), or `restore` all ranks of the job. Return the running
    ranks."""
    ready = [running for realizer in _realizers for running in realizer.list_clusters() if running.phase == "ready"]
    nodes = [node for running in ready for node in running.get_part(Fleet).nodes()]
    roots = [process for node in nodes for kind in ("machine", "containerd") if (process := node.find_process(kind))]
    job_ranks = ranks.of_job(roots, job)
    match body["do"]:
        case "hang":
            _broken_ranks.suspend_rank(job_ranks, job, int(body["rank"]))
        case "slow":
            _broken_ranks.slow_down_rank(job_ranks, job, int(body["rank"]))
        case "restore":
            _broken_ranks.resume_ranks(job_ranks, job)
        case other:
            raise ValueError(f"{other}: hang, slow or restore")
    return {"ranks": sorted(job_ranks)}
