"""EKS, implemented without moto: clusters, add-ons, access entries, Pod Identity and managed node groups."""


def extend_moto() -> None:
    """Register this service's operations."""
    from localcloud.aws.eks import (  # noqa: F401
        access_entries,
        access_policies,
        addon_catalog,
        addon_configuration,
        addons,
        callers,
        cluster_updates,
        clusters,
        not_emulated,
        pod_identity,
        tags,
        updates,
        versions,
    )
    from localcloud.aws.eks.node_groups import calls, interruption, repair  # noqa: F401
    from localcloud.aws.eks.node_groups import updates as node_group_updates  # noqa: F401
