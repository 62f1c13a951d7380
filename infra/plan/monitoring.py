"""Decide which features of a cluster Prometheus monitors. Pure."""

from infra.cost import prices
from infra.jobs.cluster import ClusterDescription
from infra.monitoring import parts
from infra.monitoring.model import Monitored, Part, RemoteWrite
from infra.settings.existing import ExistingSettings
from infra.settings.platform import CommonPlatformSettings
from infra.settings.stack import Settings


def of_eks(settings: Settings, description: ClusterDescription) -> Monitored | None:
    platform = settings.platform
    if not platform.monitoring:
        return None
    has_efa = platform.efa_plugin and any(pool.efa for pool in description.pools)
    more = (
        *([parts.AUTOSCALER] if platform.autoscaler else []),
        *([parts.EFA_DEVICE_PLUGIN] if has_efa else []),
        *(parts.CSI_DRIVERS[each.kind] for each in settings.storage.file_systems),
        parts.NODE_MONITORING,
    )
    return _monitored(platform, description, more, eks=True, autoscaler=platform.autoscaler)


def of_existing(settings: ExistingSettings, description: ClusterDescription) -> Monitored | None:
    return _monitored(settings.platform, description, (), eks=False, autoscaler=False) if settings.platform.monitoring else None


def _monitored(
    platform: CommonPlatformSettings, description: ClusterDescription, more: tuple[Part, ...], *, eks: bool, autoscaler: bool
) -> Monitored:
    gpus = any(pool.gpus for pool in description.pools)
    optional = {
        parts.QUEUE: platform.queue,
        parts.MPI_OPERATOR: platform.mpi_operator,
        parts.JOBSET: platform.trainer,
        parts.TRAINER: platform.trainer,
        parts.NVIDIA_DEVICE_PLUGIN: platform.device_plugin and gpus,
    }
    url = platform.remote_write
    return Monitored(
        description.cluster,
        (parts.JOB_CONTROLLER, *(part for part, is_installed in optional.items() if is_installed), *more),
        eks=eks,
        queue=platform.queue,
        autoscaler=autoscaler,
        gpus=gpus and eks,
        hourly_prices=_prices(description) if eks else {},
        remote_write=RemoteWrite(url, platform.remote_write_login) if url else None,
        webhook_secret=platform.alert_receiver,
    )


def _prices(description: ClusterDescription) -> dict[str, str]:
    """Return the price of a node in USD per hour, keyed by pool, from the dated snapshot. With current prices, each
    `up` could change the rules.
    """
    snapshot = prices.snapshot(description.region)
    by_pool = {pool.name: snapshot.on_demand(pool.instance_type) for pool in description.pools}
    return {name: f"{price.usd:f}" for name, price in by_pool.items() if price is not None}
