"""Decide which parts of a cluster are monitored by Prometheus. Performs no I/O."""

from infra.cost import prices
from infra.jobs.cluster import ClusterDescription
from infra.monitoring import parts
from infra.monitoring.model import Monitored, RemoteWrite
from infra.settings.platform import CommonPlatformSettings, PlatformSettings


def plan_monitoring(settings: CommonPlatformSettings, description: ClusterDescription) -> Monitored | None:
    """Return the features of the cluster that Prometheus monitors; None without monitoring. Only EKS clusters have
    PlatformSettings."""
    if not settings.monitoring:
        return None
    eks = settings if isinstance(settings, PlatformSettings) else None
    has_gpus = any(pool.gpus for pool in description.pools)
    claims = {volume.claim for namespace in description.namespaces for volume in namespace.volumes} if eks else set()
    installed = {
        parts.JOB_CONTROLLER: True,
        parts.QUEUE: settings.queue,
        parts.MPI_OPERATOR: settings.mpi_operator,
        parts.JOBSET: settings.trainer,
        parts.TRAINER: settings.trainer,
        parts.NVIDIA_DEVICE_PLUGIN: settings.device_plugin and has_gpus,
        parts.AUTOSCALER: eks and eks.autoscaler,
        parts.EFA_DEVICE_PLUGIN: eks and eks.efa_plugin and any(pool.efa for pool in description.pools),
        **{driver: kind.claim in claims for kind, driver in parts.CSI_DRIVERS.items()},
        parts.NODE_MONITORING: eks,
    }
    url = settings.remote_write
    return Monitored(
        description.cluster,
        tuple(part for part, is_installed in installed.items() if is_installed),
        eks=eks is not None,
        queue=settings.queue,
        autoscaler=eks is not None and eks.autoscaler,
        gpus=has_gpus and eks is not None,
        hourly_prices=_read_pool_prices(description) if eks else {},
        remote_write=RemoteWrite(url, settings.remote_write_login) if url else None,
        webhook_secret=settings.alert_receiver,
    )


def _read_pool_prices(description: ClusterDescription) -> dict[str, str]:
    """Return the price of a node in USD per hour, keyed by pool, from the dated snapshot. With current prices, each
    `up` could change the rules.
    """
    snapshot = prices.read_snapshot(description.region)
    by_pool = {pool.name: snapshot.on_demand(pool.instance_type) for pool in description.pools}
    return {name: f"{price.usd:f}" for name, price in by_pool.items() if price is not None}
