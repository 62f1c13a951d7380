"""Jobs of a stack, rendered by the same functions as jobs submitted from the command line."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.placed import Manifest, Piece, build_owner_reference
from infra.jobs.render import place, render, without_time_to_live
from infra.naming import COMPONENT
from infra.platform import objects
from infra.platform.site import Site

RELEASED: Final = ['metadata.labels["kueue.x-k8s.io/queue-name"]', "spec.suspend", "spec.runPolicy.suspend", "spec.replicas"]
"""Properties that the job controller changes after a job's setup succeeds."""


@dataclass(frozen=True)
class StackJobsArgs:
    site: Site
    cluster: ClusterDescription
    jobs: Sequence[Job]
    after: Sequence[pulumi.Resource]
    """Namespaces, queues and volumes that must exist before the jobs."""


class StackJobs(pulumi.ComponentResource):
    """Creates the objects of every job in the stack, without waiting until they are ready.

    The objects exist until the job is removed from the stack file. If a job changes, Pulumi recreates all of the job's
    objects, so the changed job runs.
    """

    def __init__(self, name: str, args: StackJobsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:StackJobs", name, None, opts)
        self._name, self._args = name, args
        for job in args.jobs:
            self._create(without_time_to_live(job))
        self.register_outputs({})

    def _create(self, job: Job) -> None:
        main, *rest = pieces = render(place(job, self._args.cluster))
        trigger = digest(pieces)
        # Create the objects that pods need first, and the cleanup controller before the objects that it owns.
        created: list[pulumi.Resource] = []
        cleanup_owner: Manifest | None = None
        for piece in [*rest, main]:
            owner = cleanup_owner if piece.owner == "cleanup controller" else None
            options = pulumi.ResourceOptions(
                depends_on=list(created), replacement_trigger=trigger, ignore_changes=_ignored(piece, has_setup=bool(job.setup))
            )
            resource = self._register(_unawaited(piece.manifest, owner), options)
            if piece.is_cleanup_controller:
                uid = resource.metadata.apply(lambda metadata: metadata.uid or "")  # type: ignore[attr-defined]
                cleanup_owner = build_owner_reference(piece.manifest, uid)
            created.append(resource)

    def _register(self, manifest: Manifest, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
        options = pulumi.ResourceOptions.merge(
            self._args.site.options(self, *self._args.after),
            pulumi.ResourceOptions.merge(
                options,
                pulumi.ResourceOptions(
                    delete_before_replace=True,  # the new objects have the same names
                    additional_secret_outputs=["stringData", "data"] if manifest["kind"] == "Secret" else None,
                ),
            ),
        )
        if manifest["kind"] != "MPIJob":
            return objects.register(self._name, manifest, options)
        name = f"{self._name}-mpijob-{manifest['metadata']['name']}"
        return kubernetes.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=manifest["metadata"],
            spec=manifest["spec"],
            opts=options,
        )


def digest(pieces: Sequence[Piece]) -> str:
    """Return a digest of the job's objects, except its Secret, whose keys are new in every run of this program. When the
    digest changes, Pulumi replaces the job."""
    compared = [piece.manifest for piece in pieces if piece.manifest["kind"] != "Secret"]
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()[:16]


def _ignored(piece: Piece, *, has_setup: bool) -> list[str] | None:
    """Return the properties that Pulumi ignores when it compares an object. Changes to them take effect when the object
    is replaced."""
    kind = piece.manifest["kind"]
    if kind == "Secret":
        # Every run of this program generates new keys. In Pulumi's state, the keys are in `data`, because the
        # Kubernetes provider converts `stringData`.
        return ["stringData", "data"]
    return RELEASED if kind == "StatefulSet" or (has_setup and piece.owner is None) else None


def _unawaited(manifest: Manifest, owner: Manifest | None) -> Manifest:
    """Return the manifest with an annotation that keeps `pulumi up` from waiting for the object, and with Secret data
    marked as secret in Pulumi."""
    annotations = {**manifest["metadata"].get("annotations", {}), "pulumi.com/skipAwait": "true"}
    metadata = {**manifest["metadata"], "annotations": annotations}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    whole = {**manifest, "metadata": metadata}
    if manifest["kind"] == "Secret":
        whole["stringData"] = pulumi.Output.secret(manifest["stringData"])
    return whole
