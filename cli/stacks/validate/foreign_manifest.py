"""`validate FILE` for a manifest that was written for another system: report why it would not run here unchanged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import make_console, print_json
from cli.errors import CommandError, format_problem, serialize_problem, summarize_problems
from cli.exit_codes import OK, REFUSED
from cli.jobs.importing import admission, formats, placement
from cli.jobs.importing.source import NotImportable
from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription

WITHOUT_CLUSTER: Final = "whether a cluster (--kubeconfig) admits the pods, and whether its queue and pools accept them"


def documents(path: Path) -> list[Mapping[str, Any]]:
    """Return the Kubernetes objects in a file that create pods; empty if the file contains none."""
    try:
        return admission.select_documents_with_pods(formats.documents(formats.text_of(path)))
    except NotImportable:
        return []


def run(path: Path, manifests: Sequence[Mapping[str, Any]], access: Access, *, offline: bool, as_json: bool) -> int:
    """Print the problems; return the exit code."""
    cluster, described, unchecked = (None, None, WITHOUT_CLUSTER) if offline else _connect(access)
    current = cluster.namespace if cluster else None
    where = access.namespace or current or (described.namespaces[0].name if described else "default")
    place = described.namespace(where) if described else None
    problems: list[Problem] = []
    for manifest in manifests:
        own = admission.problems(manifest, place.pod_security if place else "restricted")
        own += placement.problems(manifest, described, place) if described else []
        own += _variables(manifest)
        if cluster is not None and not own:
            own += admission.list_refusals(manifest, cluster, where)
        label = f"{manifest['kind']} {manifest.get('metadata', {}).get('name', '')}".strip()
        problems += [Problem(f"{label}: {problem.path}", problem.message) for problem in own]
    _print(path, problems, unchecked, as_json=as_json)
    return REFUSED if problems else OK


def _connect(access: Access) -> tuple[Cluster | None, ClusterDescription | None, str]:
    try:
        cluster = access.connect()
        return cluster, cluster.description(), ""
    except CommandError as error:
        return None, None, f"{WITHOUT_CLUSTER}: {error}"


def _variables(manifest: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            variable.path,
            f"{variable.name} is a template variable that nothing expands. Replace it, or use "
            f"`import --set {variable.name}=...`.",
        )
        for variable in formats.unset_variables(manifest)
    ]


def _print(path: Path, problems: Sequence[Problem], unchecked: str, *, as_json: bool) -> None:
    if as_json:
        document = {"file": str(path), "ok": not problems, "problems": [serialize_problem(problem) for problem in problems]}
        print_json({**document, "unchecked": [unchecked] if unchecked else []})
        return
    console = make_console()
    for problem in problems:
        console.print(format_problem(problem), style="red")
    if problems:
        console.print(summarize_problems(path.name, len(problems), "created"), style="bold")
    else:
        console.print(f"{path.name}: no problems found; apply it with kubectl", style="bold green")
    if unchecked:
        console.print(f"not checked: {unchecked}", style="yellow")
