"""Jobs of a stack, rendered by the same functions as jobs submitted from the command line."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.jobs.cluster import ClusterDescription
from infra.jobs.keys import KeyPair
from infra.jobs.model import Job
from infra.jobs.pieces import Piece
from infra.jobs.pods import Manifest
from infra.jobs.render import of_a_stack, owner_reference, render
from infra.jobs.standalone import KEEPER
from infra.naming import COMPONENT, POLICY_ANNOTATION, ROLE_LABEL
from infra.platform import objects
from infra.platform.site import Site

RELEASED: Final = ['metadata.labels["kueue.x-k8s.io/queue-name"]', "spec.suspend", "spec.runPolicy.suspend", "spec.replicas"]
"""Properties that the job controller changes after a job's setup succeeds."""
CONTROLLED: Final = {
    "MPIJob": ("spec.runPolicy.backoffLimit",),
    "Job": (
        *("spec.backoffLimit", "spec.backoffLimitPerIndex", "spec.maxFailedIndexes", "spec.activeDeadlineSeconds"),
        "spec.template",
    ),
    "Role": ("rules",),
}
"""Properties that depend on whether the cluster has a job controller (infra/jobs/controlled.py). Existing jobs keep
their values: most of these properties cannot be changed in a Job, and a finished job must not run again when the
cluster gets a controller.
"""

NO_KEYS = KeyPair("", "")
"""Placeholder key pair, so that the digest of a job does not depend on generated keys."""


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
            self._create(of_a_stack(job))
        self.register_outputs({})

    def _create(self, job: Job) -> None:
        pieces = render(job, self._args.cluster)
        text = digest(render(job, _compared(job, self._args.cluster), lambda: NO_KEYS))
        main, *others = pieces
        # Create the objects that pods need first, and the cleanup controller before the objects that it owns.
        created: list[pulumi.Resource] = []
        cleanup_owner: Manifest | None = None
        for piece in [*others, main]:
            one = self._register(piece, text, created, cleanup_owner if piece.owner == "cleanup controller" else None)
            if piece.manifest["kind"] == "Job" and piece.manifest["metadata"]["labels"].get(ROLE_LABEL) == KEEPER:
                uid = one.metadata.apply(lambda metadata: metadata.uid or "")  # type: ignore[attr-defined]
                cleanup_owner = owner_reference(piece.manifest, uid)
            created.append(one)

    def _register(
        self, piece: Piece, text: str, after: Sequence[pulumi.Resource] = (), owner: Manifest | None = None
    ) -> pulumi.CustomResource:
        manifest = _unawaited(piece.manifest, owner)
        secret = manifest["kind"] == "Secret"
        options = pulumi.ResourceOptions.merge(
            self._args.site.options(self, *self._args.after, *after),
            pulumi.ResourceOptions(
                replacement_trigger=text,
                delete_before_replace=True,  # the new objects have the same names
                ignore_changes=_ignored(manifest),
                additional_secret_outputs=["stringData", "data"] if secret else None,
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
    """Return a digest of the job's objects. When the digest changes, Pulumi replaces the job."""
    whole = json.dumps([piece.manifest for piece in pieces], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _compared(job: Job, cluster: ClusterDescription) -> ClusterDescription:
    """Return the cluster description that goes into a job's digest. Installing a job controller changes only the
    digests of jobs that need the controller from the start.
    """
    needs_controller = bool(job.setup or job.no_retry_exit_codes or job.progress)
    return cluster if needs_controller else cluster.model_copy(update={"job_controller": False})


def _ignored(manifest: Manifest) -> list[str] | None:
    """Return the properties that Pulumi ignores when it compares an object. Changes to them take effect when the object
    is replaced."""
    kind, policy = manifest["kind"], manifest["metadata"]["annotations"].get(POLICY_ANNOTATION, "")
    if kind == "Secret":
        # Every run of this program generates new keys. In Pulumi's state, the keys are in `data`, because the
        # Kubernetes provider converts `stringData`.
        return ["stringData", "data"]
    if kind == "StatefulSet" or '"hold"' in policy:
        return RELEASED
    if kind not in CONTROLLED:
        return None
    return [f'metadata.annotations["{POLICY_ANNOTATION}"]', *CONTROLLED[kind]]


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
