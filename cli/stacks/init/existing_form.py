"""`init` for an existing Kubernetes cluster: its questions, the defaults read from the cluster, and the stack file."""

import json
import os
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Final

from cli.stacks.init.questions import (
    NONE,
    Answers,
    Draft,
    Form,
    Proposal,
    Question,
    Unfit,
    format_as_flow_yaml,
    make_choice_check,
    make_number_check,
    make_pattern_check,
    propose_default,
    propose_nothing,
    shorten_home,
    split_comma_list,
)
from cli.within import run_with_timeout
from infra.config.messages import join_with_and, join_with_or, suggest_correction
from infra.facts.existing_cluster import Node, convert_node
from infra.kubernetes import kubeconfigs
from infra.preflight import examine_existing_stack
from infra.validation.existing_cluster import MAXIMUM_GPUS

NFS, STORAGE_CLASS = "nfs", "storage-class"
LOOK_SECONDS: Final = 4.0
"""How long `init` waits when it reads defaults from the cluster."""
GPU_PRESENT: Final = {"nvidia.com/gpu.present": "true"}
"""Node label set by NVIDIA's GPU feature discovery."""

# --- kubeconfig and context --------------------------------------------------------------------------------------------


def _parse_kubeconfig_path(answer: str) -> Path | None:
    """Return the kubeconfig path; None if KUBECONFIG lists several files, which a stack file cannot express."""
    return None if _is_path_list(answer) else Path(answer).expanduser()


def _is_path_list(answer: str) -> bool:
    return os.pathsep in answer and answer == os.environ.get("KUBECONFIG")


def _propose_kubeconfig(draft: Draft) -> Proposal:
    usual = kubeconfigs.join_kubeconfig_paths(None)
    return Proposal(usual if _is_path_list(usual) else shorten_home(usual))


def _check_kubeconfig(answer: str, answers: Answers) -> None:
    file = _parse_kubeconfig_path(answer)
    if file is not None and not file.is_file():
        raise Unfit("the file does not exist; give the kubeconfig of the cluster")
    _list_contexts(answer)


def _list_contexts(answer: str) -> tuple[list[str], str | None]:
    """Return the context names and the current context. Raises Unfit."""
    try:
        names, current = kubeconfigs.list_contexts(_parse_kubeconfig_path(answer))
    except kubeconfigs.Unusable:
        raise Unfit("the file is not a kubeconfig; give the kubeconfig of the cluster") from None
    if not names:
        raise Unfit("the file has no context; give the kubeconfig of the cluster")
    return names, current or None


def _propose_context(draft: Draft) -> Proposal:
    names, current = _list_contexts(draft.answers["kubeconfig"])
    return Proposal(current or "", f"Contexts of the kubeconfig: {join_with_and(names)}.", is_required=current is None)


def _check_context(answer: str, answers: Answers) -> None:
    names, _ = _list_contexts(answers["kubeconfig"])
    if answer not in names:
        raise Unfit(f"the kubeconfig has no such context{suggest_correction(answer, names) or '.'} Write {join_with_or(names)}")


# --- defaults from the cluster -----------------------------------------------------------------------------------------


@lru_cache
def _list_nodes(kubeconfig: str, context: str) -> tuple[Node, ...]:
    """Return the cluster's nodes, or an empty tuple if they cannot be read in time; `init` then offers no defaults."""

    def read_nodes() -> tuple[Node, ...]:
        answer = kubeconfigs.load_connection(_parse_kubeconfig_path(kubeconfig), context).call("GET", "api/v1/nodes")
        return tuple(convert_node(item) for item in json.loads(answer.data)["items"])

    try:
        return run_with_timeout(LOOK_SECONDS, read_nodes)
    except Exception:  # offer no default; validation will report the problem
        return ()


def read_cluster_nodes(draft: Draft) -> tuple[Node, ...]:
    return () if draft.offline else _list_nodes(draft.answers["kubeconfig"], draft.answers["context"])


def propose_selector(draft: Draft) -> Proposal:
    """Propose a label that all GPU nodes but no other nodes have, preferably the one from GPU feature discovery."""
    nodes = read_cluster_nodes(draft)
    gpu_nodes = [node for node in nodes if node.gpus]
    if not gpu_nodes:
        return Proposal(is_required=True)
    common = set.intersection(*(set(node.labels.items()) for node in gpu_nodes))
    common -= {label for node in nodes if not node.gpus for label in node.labels.items()}
    note = f"Nodes with GPUs: {join_with_and(node.name for node in gpu_nodes)}."
    if not common:
        return Proposal(note=note, is_required=True)
    key, value = min(common, key=lambda label: (label not in GPU_PRESENT.items(), label))
    return Proposal(f"{key}={value}", note)


def find_matching_nodes(draft: Draft) -> tuple[Node, ...]:
    selector = _parse_selector(draft.answers["node-selector"])
    return tuple(node for node in read_cluster_nodes(draft) if node.matches_selector(selector))


def _propose_gpus(draft: Draft) -> Proposal:
    offered = [node.gpus for node in find_matching_nodes(draft) if node.gpus]
    return Proposal(str(min(offered))) if offered else Proposal(is_required=True)


def _propose_size(draft: Draft) -> Proposal:
    nodes = find_matching_nodes(draft)
    return Proposal(str(len(nodes))) if nodes else Proposal(is_required=True)


# --- answers -----------------------------------------------------------------------------------------------------------


def _parse_selector(answer: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in split_comma_list(answer))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check_selector(answer: str, answers: Answers) -> None:
    pairs = split_comma_list(answer)
    if not pairs or any("=" not in part for part in pairs):
        raise Unfit("write KEY=VALUE, like example.com/rack=1, and separate several with commas")


def _build_volume(answers: Answers) -> dict[str, str] | None:
    match answers["storage"]:
        case "nfs":
            server, _, path = answers["nfs"].rpartition(":")
            fields = {"kind": NFS, "server": server.strip("[]"), "path": path}
        case "storage-class":
            fields = {"kind": STORAGE_CLASS, "name": answers["storage-class"], "size": answers["volume-size"]}
        case _:
            return None
    return {**fields, "mountPath": answers["mount-path"]}


def _render_stack_file(stack: str, answers: Answers) -> str:
    path = {} if _is_path_list(answers["kubeconfig"]) else {"path": shorten_home(answers["kubeconfig"])}
    volume = _build_volume(answers)
    storage = (
        f"  gpumpi:storage: {format_as_flow_yaml(volume)}\n" if volume else "  # no gpumpi:storage: jobs have no shared volume\n"
    )
    pool = {
        "name": answers["pool"],
        "nodeSelector": _parse_selector(answers["node-selector"]),
        "gpusPerNode": int(answers["gpus"]),
        "nodes": int(answers["size"]),
    }
    return f"""\
# The operators, the queue and jobs on an existing Kubernetes cluster. Creates and queries nothing in AWS.
config:
  gpumpi:target:
    kind: existing
    kubeconfig: {format_as_flow_yaml({**path, "context": answers["context"]})}
{storage}  gpumpi:pools:
    - {format_as_flow_yaml(pool)}
  # The repository to which short image names such as openmpi:5 refer; without one, jobs need full image names:
  # gpumpi:platform: {{imageRepository: registry.example.com/team}}
"""


def _list_next_steps(stack: str, answers: Answers) -> dict[str, tuple[str, ...]]:
    cluster = f"--context {shlex.quote(answers['context'])}"
    if not _is_path_list(answers["kubeconfig"]):
        cluster = f"--kubeconfig {quote_path(shorten_home(answers['kubeconfig']))} {cluster}"
    smoke = f"scripts/cluster smoke --pool {answers['pool']} --workers {min(2, int(answers['size']))} {cluster} --image IMAGE"
    commands = (
        f"scripts/cluster validate -s {stack}",
        f"pulumi stack init {stack} && pulumi up -s {stack}",
        f"scripts/cluster status -s {stack}",
    )
    return {"next": (*commands, smoke) if int(answers["gpus"]) else commands}


def quote_path(path: str) -> str:
    """Quote a path for a shell that must still expand `~/`."""
    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)


EXISTING: Final = Form(
    "an existing Kubernetes cluster, through its kubeconfig: operators, queue and jobs; nothing in AWS",
    "the cluster",
    (
        Question("kubeconfig", "kubeconfig", _propose_kubeconfig, _check_kubeconfig, ("target.kubeconfig.path",)),
        Question(
            "context",
            "context of the kubeconfig",
            _propose_context,
            _check_context,
            ("target.kubeconfig.context",),
            example="admin@rack",
        ),
        Question("pool", "name of the node pool", propose_default("gpu"), paths=("pools[0].name",)),
        Question(
            "node-selector",
            "labels that select exactly the nodes of the pool (KEY=VALUE)",
            propose_selector,
            _check_selector,
            ("pools[0].nodeSelector",),
            example="example.com/rack=1",
        ),
        Question(
            "gpus", "GPUs per node", _propose_gpus, make_number_check(0, MAXIMUM_GPUS), ("pools[0].gpusPerNode",), example="8"
        ),
        Question("size", "number of nodes", _propose_size, make_number_check(1, 1000), ("pools[0].nodes",), example="2"),
        Question(
            "storage",
            "shared volume for jobs: none, nfs or storage-class",
            propose_default(NONE),
            make_choice_check(NONE, NFS, STORAGE_CLASS),
            ("storage.kind",),
        ),
        Question(
            "nfs",
            "NFS export, like 10.0.0.5:/export/jobs",
            propose_nothing,
            make_pattern_check(r"[^\s:]\S*:/\S*", "10.0.0.5:/export/jobs"),
            ("storage.server", "storage.path"),
            example="10.0.0.5:/export/jobs",
            applies=lambda answers: answers["storage"] == NFS,
            condition="with --storage nfs",
        ),
        Question(
            "storage-class",
            "storage class that supports ReadWriteMany",
            propose_nothing,
            make_pattern_check(r"\S+", "cephfs"),
            ("storage.name",),
            is_final=True,
            example="cephfs",
            applies=lambda answers: answers["storage"] == STORAGE_CLASS,
            condition="with --storage storage-class",
        ),
        Question(
            "volume-size",
            "size of each namespace's volume",
            propose_default("100Gi"),
            paths=("storage.size",),
            applies=lambda answers: answers["storage"] == STORAGE_CLASS,
            condition="with --storage storage-class",
        ),
        Question(
            "mount-path",
            "mount path of the volume in jobs",
            propose_default("/shared"),
            paths=("storage.mountPath",),
            applies=lambda answers: answers["storage"] != NONE,
            condition="with --storage nfs or storage-class",
        ),
    ),
    _render_stack_file,
    examine_existing_stack,
    _list_next_steps,
)
