"""Users' additions to the pods of a job: the parts of a pod that Pod Security `restricted` allows.

Fields have the same names and meanings as in Kubernetes:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from infra.config.models import Model, Names

Raw = dict[str, object]
"""Base model for a part of a Kubernetes object that the API server validates."""

VOLUME_KINDS: Final = ("config_map", "secret", "empty_dir", "projected", "downward_api", "ephemeral", "csi")
"""Kinds of volumes that Pod Security `restricted` allows, except PersistentVolumeClaims, which belong in the job's
`volumes`: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""


class Reference(Model):
    """Name of an object in the job's namespace."""

    name: str = Field(examples=["settings"], description="Name of the object in the job's namespace.")
    optional: bool | None = Field(None, description="Start the pod even if the object is missing.")


class EnvSource(Model):
    """A ConfigMap or Secret whose keys become environment variables."""

    prefix: str | None = Field(None, description="Prefix of each variable's name.")
    config_map_ref: Reference | None = Field(None, description="The ConfigMap.")
    secret_ref: Reference | None = Field(None, description="The Secret.")


class Toleration(Model):
    """A toleration in addition to those of the pool."""

    key: str | None = Field(None, description="Key of the taint; without a key, `operator: Exists` tolerates all taints.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="`Equal` (default) or `Exists`.")
    value: str | None = Field(None, description="Value of the taint, with `Equal`.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(None, description="Effect; all by default.")
    toleration_seconds: int | None = Field(None, description="Seconds until a pod is evicted; only with `NoExecute`.")


class Port(Model):
    """A container port, declared for Services and to document the manifest."""

    container_port: int = Field(examples=[6006], description="Number of the port.")
    name: str | None = Field(None, description="Name of the port.")
    protocol: Literal["TCP", "UDP", "SCTP"] | None = Field(None, description="Protocol; TCP by default.")


class PodVolume(Model):
    """Pod volume with exactly one volume source and a mount path. PersistentVolumeClaims belong in the job's `volumes`."""

    name: str = Field(examples=["settings"], description="Name of the volume.")
    mount_path: str = Field(examples=["/etc/train"], description="Mount path.")
    sub_path: str | None = Field(None, description="Path inside the volume to mount.")
    read_only: bool = Field(False, description="Mount the volume read-only.")
    config_map: Raw | None = Field(None, description="A ConfigMap: `{name: settings}`.")
    secret: Raw | None = Field(None, description="A Secret: `{secretName: dataset}`.")
    empty_dir: Raw | None = Field(None, description="A folder that exists as long as the pod: `{}`, or `{sizeLimit: 50Gi}`.")
    projected: Raw | None = Field(None, description="Several ConfigMaps, Secrets and fields in one folder.")
    downward_api: Raw | None = Field(None, alias="downwardAPI", description="Fields of the pod as files.")
    ephemeral: Raw | None = Field(None, description="A PersistentVolumeClaim that exists as long as the pod, such as local NVMe.")
    csi: Raw | None = Field(None, description="An ephemeral volume of a CSI driver.")
    host_path: Raw | None = Field(None, description="Always rejected, because Pod Security forbids it.")

    @property
    def volume_kinds(self) -> list[str]:
        """Volume kinds that are set; a valid volume has exactly one kind."""
        return [str(type(self).model_fields[kind].alias) for kind in VOLUME_KINDS if getattr(self, kind) is not None]


class Affinity(Model):
    """Affinity in addition to the pool's node selector, with the terms that Kubernetes defines."""

    node_affinity: Raw | None = Field(None, description="Nodes that the pods require or prefer.")
    pod_affinity: Raw | None = Field(None, description="Pods to schedule these pods near.")
    pod_anti_affinity: Raw | None = Field(None, description="Pods from which these pods are kept apart.")


class PodOverrides(Model):
    """Additions to the pods of one role."""

    labels: dict[str, str] = Field({}, description="Additional labels.")
    annotations: dict[str, str] = Field({}, description="Additional annotations.")
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = Field((), description="Additional tolerations.")
    affinity: Affinity | None = Field(None, description="Affinity in addition to the pool's node selector.")
    image_pull_secrets: Names | None = Field(None, description="Secrets that replace the job's `imagePullSecrets`.")
    ports: Annotated[tuple[Port, ...], Field(strict=False)] = Field((), description="Additional ports.")
    volumes: Annotated[tuple[PodVolume, ...], Field(strict=False)] = Field(
        (), description="Additional volumes: `configMap`, `secret`, `emptyDir`, `projected`, `downwardAPI`, `ephemeral` or `csi`."
    )


class RoleOverrides(Model):
    """Additions to the pods of each role."""

    worker: PodOverrides | None = Field(
        None, description="Additions to the pods that run ranks; `setup` also gets their volumes."
    )
    launcher: PodOverrides | None = Field(
        None, description="Additions to the pods of the launcher and of `setup`, with the fields of `worker`; MPI only."
    )

    def roles(self) -> Iterator[tuple[str, PodOverrides]]:
        """Yield the roles that have additions."""
        yield from (
            (role, additions)
            for role, additions in (("worker", self.worker), ("launcher", self.launcher))
            if additions is not None
        )


def to_manifest(model: Model, *without: str) -> Raw:
    """Return a model as a part of a Kubernetes object."""
    return model.model_dump(by_alias=True, exclude_none=True, exclude=set(without))
