"""Jobs of a stack, rendered by the same functions as jobs submitted from the command line."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

import pulumi

from infra.jobs.model import Job
from infra.jobs.placed import Manifest
from infra.jobs.render import place_job, remove_time_to_live, render_job
from infra.naming import COMPONENT, QUEUE_LABEL
from infra.platform import objects
from infra.platform.site import Site

RELEASED: Final = [f'metadata.labels["{QUEUE_LABEL}"]', "spec.suspend", "spec.runPolicy.suspend", "spec.replicas"]
"""Properties that the job controller changes after `setup` and after the end of the job."""


class StackJobs(pulumi.ComponentResource):
    """Creates the objects of every job in the stack, without waiting until they are ready.

    The objects exist until the job is removed from the stack file. If a job changes, Pulumi recreates all of the job's
    objects, so the changed job runs.
    """

    def __init__(
        self,
        name: str,
        site: Site,
        jobs: Sequence[Job],
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after` contains the namespaces, queues and volumes that must exist before the jobs."""
        super().__init__(f"{COMPONENT}:StackJobs", name, None, opts)
        self._name, self._site, self._after = name, site, after
        for job in jobs:
            self._create_job(remove_time_to_live(job))
        self.register_outputs({})

    def _create_job(self, job: Job) -> None:
        main, *others = manifests = render_job(place_job(job, self._site.description))
        trigger = compute_digest(manifests)
        created: list[pulumi.Resource] = []
        for manifest in [*others, main]:  # the objects that the launcher needs come first
            ignored = _list_ignored_properties(manifest, is_held=bool(job.setup) and manifest is main)
            options = pulumi.ResourceOptions(depends_on=list(created), replacement_trigger=trigger, ignore_changes=ignored)
            created.append(self._register_object(_skip_await(manifest), options))

    def _register_object(self, manifest: Manifest, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
        options = pulumi.ResourceOptions.merge(
            self._site.options(self, *self._after),
            pulumi.ResourceOptions.merge(
                options,
                pulumi.ResourceOptions(
                    delete_before_replace=True,  # the new objects have the same names
                    additional_secret_outputs=["stringData", "data"] if manifest["kind"] == "Secret" else None,
                ),
            ),
        )
        if manifest["kind"] != "MPIJob":
            return objects.register_object(self._name, manifest, options)
        return objects.register_custom_resource(f"{self._name}-mpijob-{manifest['metadata']['name']}", manifest, options)


def compute_digest(manifests: Sequence[Manifest]) -> str:
    """Return a digest of the job's objects, except its Secret, whose keys differ in every run of this program. When the
    digest changes, Pulumi replaces the job."""
    compared = [manifest for manifest in manifests if manifest["kind"] != "Secret"]
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()[:16]


def _list_ignored_properties(manifest: Manifest, *, is_held: bool) -> list[str] | None:
    """Return the properties that Pulumi ignores when it compares an object. Changes to these properties take effect
    when the object is replaced."""
    if manifest["kind"] == "Secret":
        # Every run of this program generates new keys. In Pulumi's state, the keys are in `data`, because the
        # Kubernetes provider converts `stringData`.
        return ["stringData", "data"]
    return RELEASED if manifest["kind"] == "StatefulSet" or is_held else None


def _skip_await(manifest: Manifest) -> Manifest:
    """Return the manifest with an annotation that keeps `pulumi up` from waiting for the object, and with Secret data
    marked as secret in Pulumi."""
    annotations = {**manifest["metadata"].get("annotations", {}), "pulumi.com/skipAwait": "true"}
    whole = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    if manifest["kind"] == "Secret":
        whole["stringData"] = pulumi.Output.secret(manifest["stringData"])
    return whole
