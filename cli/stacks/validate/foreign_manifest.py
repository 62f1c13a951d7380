"""`validate FILE` for a manifest that was written for another system: report why it would not run here unchanged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import make_console, print_json
from cli.errors import CommandError, problem_count, problem_json, problem_line
from cli.exit_codes import OK, REFUSED
from cli.jobs.importing import admission, formats, placement
from cli.jobs.importing.errors import NotImportable
from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription

WITHOUT_CLUSTER: Final = "whether a cluster (--kubeconfig) admits the pods, and whether its queue and pools accept them"


def documents(path: Path) -> list[Mapping[str, Any]]:
    """Return the Kubernetes objects in a file that create pods; empty if the file contains none."""
    try:
        return admission.documents_with_pods(formats.documents(formats.text_of(path)))
    except NotImportable:
        return []


def run(
    path: Path, manifests: Sequence[Mapping[str, Any]], access: Access, namespace: str | None, *, offline: bool, as_json: bool
) -> int:
    """Print the problems; return the exit code."""
    cluster, described, unchecked = (None, None, WITHOUT_CLUSTER) if offline else _connect(access)
    where = namespace or (cluster.namespace if cluster else None) or (described.namespaces[0].name if described else "default")
    place = described.namespace(where) if described else None
    found: list[Problem] = []
    for manifest in manifests:
        own = admission.problems(manifest, place.pod_security if place else "restricted")
        own += placement.problems(manifest, described, place) if described else []
        own += _variables(manifest)
        if cluster is not None and not own:
            own += admission.refusals(manifest, cluster, where)
        label = f"{manifest['kind']} {manifest.get('metadata', {}).get('name', '')}".strip()
        found += [Problem(f"{label}: {one.path}", one.message) for one in own]
    _print(path, found, unchecked, as_json=as_json)
    return REFUSED if found else OK


def _connect(access: Access) -> tuple[Cluster | None, ClusterDescription | None, str]:
    try:
        cluster = access.connect()
        return cluster, cluster.description(), ""
    except CommandError as error:
        return None, None, f"{WITHOUT_CLUSTER}: {error}"


def _variables(manifest: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            one.path, f"{one.name} is a template variable that nothing expands. Replace it, or use `import --set {one.name}=...`."
        )
        for one in formats.unset_variables(manifest)
    ]


def _print(path: Path, found: Sequence[Problem], unchecked: str, *, as_json: bool) -> None:
    if as_json:
        document = {"file": str(path), "ok": not found, "problems": [problem_json(one) for one in found]}
        print_json({**document, "unchecked": [unchecked] if unchecked else []})
        return
    console = make_console()
    for problem in found:
        console.print(problem_line(problem), style="red")
    if found:
        console.print(problem_count(path.name, len(found), "created"), style="bold")
    else:
        console.print(f"{path.name}: no problems found; apply it with kubectl", style="bold green")
    if unchecked:
        console.print(f"not checked: {unchecked}", style="yellow")
