"""Cluster autoscaler: adds nodes for unschedulable pods and removes idle nodes."""

from collections.abc import Sequence
from typing import Any, Final

import pulumi

from infra.naming import AUTOSCALER_ACCOUNT, AUTOSCALER_TAG, COMPONENT, KUBE_SYSTEM
from infra.platform.pods import build_container, build_controller_pod_settings, build_http_probe, create_deployment
from infra.platform.rbac import READ, Account, build_rule
from infra.platform.site import Site
from infra.versions import choose_autoscaler_version

NAME: Final = AUTOSCALER_ACCOUNT
PORT: Final = 8085
NODE_MINUTES: Final = 20
"""Time limit for a new node to become Ready. Nodes with GPUs take 5 to 15 minutes."""


class ClusterAutoscaler(pulumi.ComponentResource):
    """Creates:
    - a service account with the permissions of upstream's auto-discovery example, and no more
    - the Deployment, which finds node groups by their tags
    """

    def __init__(
        self,
        name: str,
        site: Site,
        idle_minutes: int,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after` contains the association of the autoscaler's IAM role."""
        super().__init__(f"{COMPONENT}:ClusterAutoscaler", name, None, opts)
        options, account = site.options(self), Account(NAME, KUBE_SYSTEM, NAME)
        wide, narrow = f"{name}-cluster-role", f"{name}-role"
        needs = [
            account.create(f"{name}-account", options),
            *account.grant(wide, _build_cluster_rules(), options, binding=f"{wide}-binding"),
            *account.grant(narrow, _build_status_rules(), options, namespace=KUBE_SYSTEM, binding=f"{narrow}-binding"),
        ]
        metadata = {"name": NAME, "namespace": KUBE_SYSTEM, "labels": {"app": NAME}}
        pod = _build_pod(site, idle_minutes)
        create_deployment(f"{name}-deployment", metadata, pod, site.options(self, *needs, *site.node_groups, *after))
        self.register_outputs({})


def _build_pod(site: Site, idle_minutes: int) -> Any:
    return {
        **build_controller_pod_settings(NAME, site.system_nodes),
        "containers": [
            build_container(
                site,
                NAME,
                f"registry.k8s.io/autoscaling/cluster-autoscaler:{choose_autoscaler_version(site.kubernetes_version)}",
                (100, "600Mi", "600Mi"),
                command=["./cluster-autoscaler", *_build_flags(site.naming.cluster, idle_minutes)],
                env=[{"name": "AWS_REGION", "value": site.description.region}],
                ports=[{"name": "metrics", "container_port": PORT}],
                liveness_probe={**build_http_probe("/health-check", PORT, period=20), "initial_delay_seconds": 60},
                readiness_probe=build_http_probe("/health-check", PORT, period=5),
            )
        ],
    }


def _build_flags(cluster: str, idle_minutes: int) -> list[str]:
    """https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-are-the-parameters-to-ca"""
    return [
        "--v=4",
        "--stderrthreshold=info",
        "--cloud-provider=aws",
        f"--node-group-auto-discovery=asg:tag={AUTOSCALER_TAG}/enabled,{AUTOSCALER_TAG}/{cluster}",
        # The list of instance types compiled into the autoscaler lacks P5e, P6 and G7, so their pools would never
        # grow from zero. With this flag, the autoscaler queries DescribeInstanceTypes instead; private clusters
        # have an endpoint for EC2.
        "--aws-use-static-instance-list=false",
        "--expander=least-waste",
        "--skip-nodes-with-local-storage=false",  # job pods use /dev/shm; running job pods are marked as not safe to evict
        f"--scale-down-unneeded-time={idle_minutes}m",
        f"--scale-down-delay-after-add={idle_minutes}m",
        f"--max-node-provision-time={NODE_MINUTES}m",
    ]


def _build_cluster_rules() -> Any:
    """https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/examples, as of 1.35"""
    core = ["namespaces", "pods", "services", "replicationcontrollers", "persistentvolumeclaims", "persistentvolumes"]
    return [
        build_rule("", ["events", "endpoints"], ["create", "patch"]),
        build_rule("", ["pods/eviction"], ["create"]),
        build_rule("", ["pods/status"], ["update"]),
        build_rule("", ["endpoints"], ["get", "update"], NAME),
        build_rule("", ["nodes"], [*READ, "update"]),
        build_rule("", core, READ),
        build_rule("policy", ["poddisruptionbudgets"], READ),
        build_rule("apps", ["statefulsets", "replicasets", "daemonsets"], READ),
        build_rule(
            "storage.k8s.io", ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"], READ
        ),
        build_rule("batch", ["jobs"], [*READ, "patch"]),
        build_rule("coordination.k8s.io", ["leases"], ["create"]),
        build_rule("coordination.k8s.io", ["leases"], ["get", "update"], NAME),
        # The autoscaler's scheduling simulation also reads ResourceClaims.
        build_rule("resource.k8s.io", ["resourceclaims", "resourceslices", "deviceclasses"], READ),
    ]


def _build_status_rules() -> Any:
    status = [f"{NAME}-status", f"{NAME}-priority-expander"]
    return [
        build_rule("", ["configmaps"], ["create", "list", "watch"]),
        build_rule("", ["configmaps"], ["delete", "get", "update", "watch"], *status),
    ]
