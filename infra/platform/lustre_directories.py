"""Sets the owner of directories in a new Lustre file system, where only root can write at first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, GROUP_ID, KUBE_SYSTEM, LUSTRE_CLAIM, USER_ID
from infra.platform.shared_volume import ANY_SIZE, LustreVolume, source_of
from infra.platform.site import Site
from infra.versions import AMAZON_LINUX

MOUNT: Final = "/lustre"
NAME: Final = "gpumpi-lustre-directories"


@dataclass(frozen=True)
class LustreDirectoriesArgs:
    site: Site
    volume: LustreVolume
    directories: Sequence[str]
    """Directories that jobs can write to: `/`, and the directory that is linked to a bucket."""
    after: Sequence[pulumi.Resource] = ()
    """Resources that the mount needs."""


class LustreDirectories(pulumi.ComponentResource):
    """Creates a Kubernetes Job with its own volume. The Job makes the user of job images the owner of the directories,
    but not of the files in them. `pulumi up` waits for the Job."""

    def __init__(self, name: str, args: LustreDirectoriesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:LustreDirectories", name, None, opts)
        site = args.site
        volume = kubernetes.core.v1.PersistentVolume(
            f"{name}-volume",
            metadata={"name": f"{site.naming.cluster}-{NAME}"},
            spec=_volume(args.volume),
            opts=site.options(self, *args.after),
        )
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata={"name": NAME, "namespace": KUBE_SYSTEM},
            spec={
                "access_modes": ["ReadWriteMany"],
                "storage_class_name": "",
                "volume_name": volume.metadata.apply(lambda metadata: metadata.name),
                "resources": {"requests": {"storage": ANY_SIZE}},
            },
            opts=site.options(self, volume),
        )
        self._job = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata={"name": NAME, "namespace": KUBE_SYSTEM},
            spec=_job(site, args.directories),
            opts=pulumi.ResourceOptions.merge(
                site.options(self, claim),
                pulumi.ResourceOptions(delete_before_replace=True),  # the replacement has the same name
            ),
        )
        self.register_outputs({})

    @property
    def done(self) -> pulumi.Resource:
        return self._job


def _volume(volume: LustreVolume) -> Any:
    return {
        "capacity": {"storage": ANY_SIZE},
        "access_modes": ["ReadWriteMany"],
        "persistent_volume_reclaim_policy": "Retain",
        "storage_class_name": "",
        "volume_mode": "Filesystem",
        **source_of(volume),
        "claim_ref": {"api_version": "v1", "kind": "PersistentVolumeClaim", "namespace": KUBE_SYSTEM, "name": NAME},
    }


def _job(site: Site, directories: Sequence[str]) -> Any:
    paths = [f"{MOUNT}{directory}".rstrip("/") for directory in directories]
    container = {
        "name": "chown",
        "image": site.image(AMAZON_LINUX),
        "command": ["chown", f"{USER_ID}:{GROUP_ID}", *paths],
        "resources": {"requests": {"cpu": site.cpu(50), "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "security_context": {
            "run_as_user": 0,
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "volume_mounts": [{"name": LUSTRE_CLAIM, "mount_path": MOUNT}],
    }
    pod = {
        "restart_policy": "OnFailure",
        "automount_service_account_token": False,
        "node_selector": dict(site.system_nodes),
        "containers": [container],
        "volumes": [{"name": LUSTRE_CLAIM, "persistent_volume_claim": {"claim_name": NAME}}],
    }
    return {"backoff_limit": 6, "template": {"metadata": {"labels": {"app.kubernetes.io/name": NAME}}, "spec": pod}}
