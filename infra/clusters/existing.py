"""An existing Kubernetes cluster: `pulumi up` installs only the platform and the stack's jobs into it."""

from collections.abc import Mapping

from infra import outputs
from infra.facts.existing_cluster import ClusterFacts, find_kubeconfig
from infra.kubernetes import kubeconfigs
from infra.naming import Naming
from infra.plan import job_users, monitoring
from infra.plan.cluster_description import describe_existing_cluster
from infra.plan.storage import plan_shared_data
from infra.settings.existing import ClassOfStorage, ExistingSettings, Nfs


def build(settings: ExistingSettings, facts: ClusterFacts) -> Mapping[str, object]:
    """Register all objects and return the outputs."""
    from infra.platform.install import Platform, PlatformArgs  # loads pulumi_kubernetes
    from infra.platform.shared_volume import SharedFileSystem, Volume, build_nfs_file_system
    from infra.platform.site import Site

    match settings.storage:
        case Nfs(server=server, path=path):
            data = plan_shared_data(settings.storage)
            shared, writers = (data.path, data.writers) if data else (None, ())
            file_systems = [build_nfs_file_system(server, path, settings.platform.namespace_names, shared, writers)]
        case ClassOfStorage(name=name, size=size):
            file_systems = [SharedFileSystem([Volume(provisioner=name, size=size)])]
        case _:
            file_systems = []
    naming, platform, description = Naming(settings.stack), settings.platform, describe_existing_cluster(settings, facts)
    file = kubeconfigs.find_context_file(find_kubeconfig(settings.target.kubeconfig), facts.context)
    system = settings.target.system.node_selector
    args = PlatformArgs(
        Site(naming, facts.version, platform, facts.manifests, description, system_nodes=system),
        kubeconfig=file,
        context=facts.context,
        file_systems=file_systems,
        monitoring=monitoring.plan_monitoring(platform, description),
        users=job_users.plan_existing_users(settings),
        jobs=settings.jobs,
    )
    Platform(naming.name("platform"), args)
    return {
        **outputs.describe_image_repository(description),
        "clusterName": naming.cluster,
        "clusterEndpoint": facts.server,
        "kubernetesVersion": facts.version,
        "pools": [
            {"name": pool.name, "gpus": pool.gpus, "slots": pool.slots, "nodes": pool.max_size} for pool in description.pools[1:]
        ],
        "namespaces": list(platform.namespace_names),
        "connect": {"kubectl": f"kubectl --kubeconfig {file} --context {facts.context}"},
    }
