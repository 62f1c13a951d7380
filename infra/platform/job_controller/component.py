"""Job controller in the cluster."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.health.journal import CONFIG_MAP as JOURNAL
from infra.naming import COMPONENT, PLATFORM_NAMESPACE, QUEUE_GROUP
from infra.platform.job_controller import program
from infra.platform.job_controller.record_policy import create_record_policy
from infra.platform.pods import build_container, build_controller_pod_settings, build_http_probe, create_deployment
from infra.platform.rbac import READ, Account, build_rule
from infra.platform.site import Site
from infra.versions import PYTHON_IMAGE

NAME: Final = "gpumpi-job-controller"
LEASE: Final = NAME
ACCOUNT: Final = Account(NAME, PLATFORM_NAMESPACE, NAME)
PORT: Final = 8080
MEMORY: Final = "96Mi"
MEMORY_LIMIT: Final = "192Mi"
"""With 10,000 records and 200 jobs, the program needs 52 MiB: `python -m bench.controller_memory`. The limit leaves room for
what users can make it keep for a moment: lines of logs (`logs.ALL_WAITING`), stacks of hanging jobs (32 MiB in
`stacks.py`), and an object of the largest size (`api.OBJECT_BYTES`)."""
LOST_NODE_SECONDS: Final = 30
"""How long the controller's pod stays bound to a lost node."""
NODE_LEASES: Final = "kube-node-lease"
NODES_VARIABLE: Final = "GPUMPI_NODES"


class JobController(pulumi.ComponentResource):
    """Creates:
    - an immutable ConfigMap with the program, named after its checksum
    - a service account that may read and patch nodes and read their leases; in the job namespaces, it may read jobs,
      pods and logs, write records and events, run commands in pods, delete pods, and release and end jobs
    - an admission policy: in all namespaces, only this account may create and change records
    - the Deployment; a Lease ensures that only one controller acts
    """

    def __init__(
        self,
        name: str,
        site: Site,
        namespaces: Sequence[tuple[str, pulumi.Resource]],
        system_namespace: pulumi.Resource,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`namespaces` contains the name and resource of each job namespace."""
        super().__init__(f"{COMPONENT}:JobController", name, None, opts)
        self._name, self._site, self._namespaces = name, site, namespaces
        self._nodes = build_watched_nodes_json(site)
        self._inside = site.options(self, inside=system_namespace)
        account = ACCOUNT.create(f"{name}-account", self._inside)
        source = kubernetes.core.v1.ConfigMap(
            f"{name}-program",
            metadata={"name": f"{NAME}-{program.compute_digest()}", "namespace": PLATFORM_NAMESPACE},
            data=dict(program.read_module_sources()),
            immutable=True,
            opts=self._inside,
        )
        policy = create_record_policy(f"{name}-record-policy", ACCOUNT.user_name, site.options(self))
        needs = [account, source, *policy, *self._create_permissions()]
        metadata = {"name": NAME, "namespace": PLATFORM_NAMESPACE, "labels": {"app": NAME}}
        options = site.options(self, system_namespace, *needs, *site.node_groups)
        create_deployment(f"{name}-deployment", metadata, self._build_pod(), options)
        self.register_outputs({})

    # --- permissions ---------------------------------------------------------------------------------------------------

    def _create_permissions(self) -> list[pulumi.Resource]:
        name, nodes, options = self._name, self._nodes, self._site.options(self)
        verbs = [*READ, *(["patch"] if nodes else [])]
        created = [
            *ACCOUNT.grant(f"{name}-nodes", [build_rule("", ["nodes"], verbs)], options),
            *self._grant_permissions("own-lease", PLATFORM_NAMESPACE, _build_own_rules(journal=bool(nodes)), self._inside),
            *self._grant_permissions(
                "node-leases", NODE_LEASES, [build_rule("coordination.k8s.io", ["leases"], ["list"])], options
            ),
        ]
        for namespace, resource in self._namespaces:
            inside = self._site.options(self, inside=resource)
            created += self._grant_permissions(
                namespace, namespace, _build_job_rules(mpi_operator=self._site.settings.mpi_operator), inside
            )
        return created

    def _grant_permissions(self, part: str, namespace: str, rules: Any, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        return ACCOUNT.grant(f"{self._name}-{part}", rules, options, namespace=namespace)

    # --- pod -----------------------------------------------------------------------------------------------------------

    def _build_pod(self) -> Any:
        site = self._site
        return {
            **build_controller_pod_settings(NAME, site.system_nodes),
            "termination_grace_period_seconds": 10,
            "tolerations": [_build_toleration(state) for state in ("not-ready", "unreachable")],
            "containers": [
                build_container(
                    site,
                    "controller",
                    PYTHON_IMAGE,
                    (50, MEMORY, MEMORY_LIMIT),
                    command=["python3", "-m", program.PACKAGE, *(name for name, _ in self._namespaces)],
                    env=[
                        {"name": "PYTHONPATH", "value": program.MOUNT},
                        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
                        {"name": "PYTHONUNBUFFERED", "value": "1"},
                        {"name": "POD_NAMESPACE", "value": PLATFORM_NAMESPACE},
                        *([{"name": NODES_VARIABLE, "value": self._nodes}] if self._nodes else []),
                    ],
                    ports=[{"name": "health", "container_port": PORT}],
                    liveness_probe={**build_http_probe("/healthz", PORT, period=20), "initial_delay_seconds": 10},
                    readiness_probe=build_http_probe("/healthz", PORT, period=5),
                    volume_mounts=[{"name": "program", "mount_path": program.MOUNT, "read_only": True}],
                )
            ],
            "volumes": [
                {
                    "name": "program",
                    "config_map": {"name": f"{NAME}-{program.compute_digest()}", "items": program.list_volume_items()},
                },
            ],
        }


def build_watched_nodes_json(site: Site) -> str:
    """Return the nodes that the controller may take out of service, as JSON (`in_pod/nodes.py`): those of all pools that
    run ranks. Empty if the controller leaves broken nodes alone."""
    if not site.settings.node_healing:
        return ""
    description = site.description
    pools = [pool for pool in description.pools if pool.node_selector and (pool.gpus or pool.name != description.launcher_pool)]
    watched = [{"labels": pool.node_selector, "gpus": pool.gpus} for pool in pools]
    return json.dumps({"existing": site.eks is None, "pools": watched}, sort_keys=True)


def _build_toleration(state: str) -> Any:
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "toleration_seconds": LOST_NODE_SECONDS}


def _build_own_rules(*, journal: bool) -> Any:
    """Return the permissions for the controller's own objects. RBAC cannot restrict `create` to a name."""
    own = [("coordination.k8s.io", ["leases"], LEASE), *([("", ["configmaps"], JOURNAL)] if journal else [])]
    return [
        allowed
        for group, resources, name in own
        for allowed in (build_rule(group, resources, ["create"]), build_rule(group, resources, ["get", "update"], name))
    ]


def _build_job_rules(*, mpi_operator: bool) -> Any:
    """Return the permissions in a job namespace. The permissions cover all ConfigMaps, because RBAC cannot tell
    records from other ConfigMaps; record_policy.py keeps everyone else from writing records."""
    return [
        build_rule("", ["configmaps"], [*READ, "create", "update", "delete"]),
        build_rule("", ["pods"], [*READ, "delete"]),
        build_rule("", ["pods/log"], ["get"]),
        build_rule("", ["pods/exec"], ["get", "create"]),
        build_rule("", ["events"], ["create"]),
        build_rule("apps", ["statefulsets"], [*READ, "patch"]),
        build_rule("batch", ["jobs"], [*READ, "patch"]),
        build_rule("batch", ["jobs/status"], ["patch"]),
        build_rule(QUEUE_GROUP, ["workloads"], READ),
        *([build_rule("kubeflow.org", ["mpijobs"], [*READ, "patch"])] if mpi_operator else []),
    ]
