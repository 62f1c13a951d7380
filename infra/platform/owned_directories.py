"""Sets the owner of directories in a new file system where only root can write at first, such as Lustre."""

from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, GROUP_ID, KUBE_SYSTEM, USER_ID
from infra.platform.shared_volume import Volume, build_claim_spec, build_volume_spec
from infra.platform.site import Site
from infra.versions import AMAZON_LINUX

MOUNT: Final = "/mnt"


class OwnedDirectories(pulumi.ComponentResource):
    """Creates a Kubernetes Job with its own volume. The Job makes the user of job images the owner of the directories,
    but not of the files in them. `pulumi up` waits for the Job."""

    def __init__(self, name: str, site: Site, volume: Volume, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:OwnedDirectories", name, None, opts)
        own = f"gpumpi-{volume.claim}-directories"
        metadata: Any = {"name": own, "namespace": KUBE_SYSTEM}
        persistent = kubernetes.core.v1.PersistentVolume(
            f"{name}-volume",
            metadata={"name": f"{site.naming.cluster}-{own}"},
            spec=build_volume_spec(volume, KUBE_SYSTEM, own),
            opts=site.options(self, *volume.needs, *site.node_groups),
        )
        volume_name = persistent.metadata.apply(lambda metadata: metadata.name)
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata=metadata,
            spec=build_claim_spec(storage_class_name="", volume_name=volume_name),
            opts=site.options(self, persistent),
        )
        self.done = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata=metadata,
            spec=_build_chown_job(site, own, volume),
            opts=pulumi.ResourceOptions.merge(
                site.options(self, claim),
                pulumi.ResourceOptions(delete_before_replace=True),  # the replacement gets the same name
            ),
        )
        self.register_outputs({})


def _build_chown_job(site: Site, own: str, volume: Volume) -> Any:
    container = {
        "name": "chown",
        "image": site.image(AMAZON_LINUX),
        "command": ["chown", f"{USER_ID}:{GROUP_ID}", *(f"{MOUNT}{directory}".rstrip("/") for directory in volume.owned)],
        "resources": {"requests": {"cpu": site.cpu(50), "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "security_context": {
            "run_as_user": 0,
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "volume_mounts": [{"name": volume.claim, "mount_path": MOUNT}],
    }
    pod = {
        "restart_policy": "OnFailure",
        "automount_service_account_token": False,
        "node_selector": dict(site.system_nodes),
        "containers": [container],
        "volumes": [{"name": volume.claim, "persistent_volume_claim": {"claim_name": own}}],
    }
    return {"backoff_limit": 6, "template": {"metadata": {"labels": {"app.kubernetes.io/name": own}}, "spec": pod}}
