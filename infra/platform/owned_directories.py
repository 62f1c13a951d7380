"""Creates the directories of a file system that has no access points, such as Lustre and NFS, before pods mount them."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, GROUP_ID, KUBE_SYSTEM, USER_ID
from infra.platform.shared_volume import NewDirectories, build_claim_spec, build_volume_spec
from infra.platform.site import Site
from infra.versions import AMAZON_LINUX

MOUNT: Final = "/mnt"


class OwnedDirectories(pulumi.ComponentResource):
    """Creates a Kubernetes Job with its own volume. The Job creates a directory for each namespace and makes the user of job
    images its owner, but not the owner of the files in it. `pulumi up` waits for the Job."""

    def __init__(
        self,
        name: str,
        site: Site,
        claim: str,
        directories: NewDirectories,
        needs: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`claim`: name of the claims in job namespaces. `needs`: resources that mounts depend on."""
        super().__init__(f"{COMPONENT}:OwnedDirectories", name, None, opts)
        own = f"gpumpi-{claim}-directories"
        metadata: Any = {"name": own, "namespace": KUBE_SYSTEM}
        replaced = pulumi.ResourceOptions(delete_before_replace=True)  # the replacement gets the same name
        persistent = kubernetes.core.v1.PersistentVolume(
            f"{name}-volume",
            metadata={"name": f"{site.naming.cluster}-{own}"},
            spec=build_volume_spec(directories.source, KUBE_SYSTEM, own),
            opts=pulumi.ResourceOptions.merge(site.options(self, *needs, *site.node_groups), replaced),
        )
        volume_name = persistent.metadata.apply(lambda metadata: metadata.name)
        created_claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata=metadata,
            spec=build_claim_spec(storage_class_name="", volume_name=volume_name),
            opts=site.options(self, persistent),
        )
        self.done = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata=metadata,
            spec=_build_job_spec(site, own, directories),
            opts=pulumi.ResourceOptions.merge(site.options(self, created_claim), replaced),
        )
        self.register_outputs({})


def build_script(directories: NewDirectories) -> str:
    """Return a shell script that can run again. Only the owner's group may read a private directory."""
    owner = f"{USER_ID}:{GROUP_ID}"
    private, owned = _format_paths(directories.private), _format_paths(directories.owned)
    lines = ["set -eu", f"mkdir -p -m 0770 {private}"]
    if directories.as_root:
        lines.append(f"chown {owner} {private} {owned}".rstrip())
    for path in map(_format_path, directories.public):
        chown = f" && chown {owner} {path}" if directories.as_root else ""
        lines.append(f"[ -e {path} ] || {{ mkdir -p -m 0755 {path}{chown}; }}")
    return "\n".join(lines)


def _format_paths(directories: Sequence[str]) -> str:
    return " ".join(map(_format_path, directories))


def _format_path(directory: str) -> str:
    return shlex.quote(f"{MOUNT}{directory}".rstrip("/"))


def _build_job_spec(site: Site, own: str, directories: NewDirectories) -> Any:
    # In an existing file system, the root directory may belong to another user, so root needs DAC_OVERRIDE to create one in it.
    # NFS servers usually treat root as nobody, so there the user of job images creates the directories.
    user = (
        {"run_as_user": 0, "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE"]}}
        if directories.as_root
        else {"run_as_user": USER_ID, "run_as_group": GROUP_ID, "capabilities": {"drop": ["ALL"]}}
    )
    container = {
        "name": "directories",
        "image": site.image(AMAZON_LINUX),
        "command": ["sh", "-c", build_script(directories)],
        "resources": {"requests": {"cpu": site.cpu(50), "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "security_context": {
            **user,
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "volume_mounts": [{"name": "root", "mount_path": MOUNT}],
    }
    pod = {
        "restart_policy": "OnFailure",
        "automount_service_account_token": False,
        "node_selector": dict(site.system_nodes),
        "containers": [container],
        "volumes": [{"name": "root", "persistent_volume_claim": {"claim_name": own}}],
    }
    return {"backoff_limit": 6, "template": {"metadata": {"labels": {"app.kubernetes.io/name": own}}, "spec": pod}}
