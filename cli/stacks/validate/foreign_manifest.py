"""`validate FILE` for a manifest that was written for another system: report why it would not run here unchanged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cli.clusters.kubernetes_access import Access, Cluster
from cli.errors import CommandError
from cli.jobs.importing import admission, formats, placement
from cli.jobs.importing.source import NotImportable
from cli.stacks.validate.file_report import FileReport
from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription

WITHOUT_CLUSTER: Final = "whether a cluster (--kubeconfig) admits the pods, and whether its queue and pools accept them"


def read_documents(path: Path) -> list[Mapping[str, Any]]:
    """Return the Kubernetes objects in a file that create pods; empty if the file contains none."""
    try:
        return [
            document for document in formats.parse_documents(formats.read_text(path)) if any(admission.find_pod_specs(document))
        ]
    except NotImportable:
        return []


def validate_manifests(
    path: Path, manifests: Sequence[Mapping[str, Any]], access: Access, *, offline: bool, as_json: bool
) -> int:
    """Print the problems; return the exit code."""
    cluster, described, unchecked = (None, None, WITHOUT_CLUSTER) if offline else _connect_or_explain(access)
    current = cluster.namespace if cluster else None
    where = access.namespace or current or (described.namespaces[0].name if described else "default")
    place = described.namespace(where) if described else None
    problems: list[Problem] = []
    for manifest in manifests:
        own = admission.find_violations(manifest, place.pod_security if place else "restricted")
        own += placement.problems(manifest, described, place) if described else []
        own += _find_unset_variables(manifest)
        if cluster is not None and not own:
            own += admission.find_rejections(manifest, cluster, where)
        label = f"{manifest['kind']} {manifest.get('metadata', {}).get('name', '')}".strip()
        problems += [Problem(f"{label}: {problem.path}", problem.message) for problem in own]
    fine = "no problems found; apply it with kubectl"
    return FileReport(path, problems, "created", fine, [unchecked] if unchecked else []).print_problems(as_json=as_json)


def _connect_or_explain(access: Access) -> tuple[Cluster | None, ClusterDescription | None, str]:
    try:
        cluster = access.connect()
        return cluster, cluster.description(), ""
    except CommandError as error:
        return None, None, f"{WITHOUT_CLUSTER}: {error}"


def _find_unset_variables(manifest: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            variable.path,
            f"{variable.name} is a template variable that nothing expands. Replace it, or use "
            f"`import --set {variable.name}=...`.",
        )
        for variable in formats.find_unset_variables(manifest)
    ]
