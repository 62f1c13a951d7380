"""Summary of the pools on an existing Kubernetes cluster: a table for users, JSON rows for scripts."""

from collections.abc import Mapping

from rich.console import Console

from cli.console import Listing
from infra.facts.existing_cluster import ClusterFacts
from infra.plan.cluster_description import describe_existing
from infra.settings.existing import ExistingSettings
from infra.validation.existing_cluster import nodes_without_reported_gpus


def list_unchecked(settings: ExistingSettings, facts: ClusterFacts) -> list[str]:
    unreported = nodes_without_reported_gpus(settings, facts)
    return [f"GPUs of {', '.join(unreported)}: no device plugin has reported the number yet"] if unreported else []


def list_rows(settings: ExistingSettings, facts: ClusterFacts) -> list[Mapping[str, object]]:
    pools = describe_existing(settings, facts).pools
    return [{"name": pool.name, "gpus": pool.gpus, "nodes": pool.max_size, "nodeSelector": pool.labels} for pool in pools]


def show(console: Console, settings: ExistingSettings, facts: ClusterFacts | None) -> None:
    """Print the pools as a table. Without `facts`, print only the cluster name."""
    where = f"Kubernetes {facts.version} at {facts.server}" if facts else "a Kubernetes cluster"
    console.print(f"{settings.cluster_name}: {where}")
    if facts is None:
        return
    listing = Listing("pool", "GPUs", "nodes", "labels", right=("GPUs", "nodes"))
    pools = describe_existing(settings, facts).pools
    for pool in pools:
        labels = ", ".join(f"{key}={value}" for key, value in pool.labels.items()) or "any node"
        listing.add_row(pool.name, str(pool.gpus), str(pool.max_size), labels)
    console.print(listing)
    console.print(f"at most {sum(pool.gpus * pool.max_size for pool in pools)} GPUs")
