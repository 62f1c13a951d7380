"""Verdicts on the nodes of an EC2 cluster: AMIs, installed versions, first-boot check, ranks. Pure."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.clusters.acceptance.aws_reads import Image, Instance
from cli.clusters.acceptance.checklist import Notebook

FIRST_BOOT: Final = "/etc/gpumpi/first-boot.json"
MANIFEST: Final = "/etc/gpumpi/manifest.json"
MPI: Final = "/etc/gpumpi/mpi"

Files = Mapping[str, str]
"""Address of a node -> content of one file, which is empty if the file does not exist on that node."""


def check_amis(notes: Notebook, found: Sequence[Instance], images: Mapping[str, Image], head_node: str) -> None:
    """Check that all workers have the same AMI. The head node may have an older AMI."""
    for one in found:
        notes.saw(f"ec2 describe-instances {one.id} ({one.address})", f"{one.type}, AMI {one.image}")
    for id in sorted({one.image for one in found}):
        notes.saw(f"ec2 describe-images {id}", str(images.get(id, "deregistered")))
    workers = sorted({one.image for one in found if one.id != head_node})
    if len(workers) > 1:
        notes.fail(f"the workers use {len(workers)} AMIs: {', '.join(workers)}. Replace the older workers: `scale` to 0 and back")
    if not found:
        notes.fail("EC2 reports no running node")


def check_versions(notes: Notebook, mpi: Files, manifests: Files) -> None:
    """Check that all nodes have the same MPI and the same AMI manifest."""
    for address, text in mpi.items():
        values = " ".join(text.split())
        notes.saw(f"{address}: {MPI}", values or "does not exist")
        if not values:
            notes.fail(f"{address} has no {MPI}: its AMI was not built by amis/")
    for address, text in manifests.items():
        notes.saw(f"{address}: {MANIFEST}", _manifest(text) if text else "does not exist; the AMI was built without one")
    for name, files in ((MPI, mpi), (MANIFEST, manifests)):
        if len(set(files.values())) > 1:
            notes.fail(f"{name} differs between nodes: {', '.join(sorted(files))}")


def _manifest(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return "not a JSON document"
    versions: Mapping[str, Any] = found.get("versions", {})
    wanted = {name: value for name, value in versions.items() if any(part in name for part in ("cuda", "efa", "driver", "nccl"))}
    shown = [f"kind {found.get('kind')}", f"system {found.get('system')}", f"kernel {found.get('kernel')}"]
    return ", ".join([*shown, *(f"{name} {value}" for name, value in sorted(wanted.items()))])


def check_first_boot(notes: Notebook, files: Files, found: Sequence[Instance], gpus: Mapping[str, int]) -> None:
    """Check each node's first-boot report. `gpus`: instance type -> GPUs per node, as EC2 reports them."""
    by_address = {one.address: one for one in found}
    for address, text in files.items():
        instance = by_address[address]
        if not text:
            notes.saw(f"{address}: {FIRST_BOOT}", "does not exist")
            notes.needs_hardware(f"{address} has no {FIRST_BOOT}: its first-boot check saw no GPU")
            continue
        seen = json.loads(text)
        notes.saw(f"{address}: {FIRST_BOOT}", json.dumps(seen, sort_keys=True))
        for sentence in seen["problems"]:
            notes.fail(f"{address}: {sentence}")
        if not seen["ok"] and not seen["problems"]:
            notes.fail(f"{address}: the first-boot check failed without giving a reason")
        for name, wanted in (("gpus", gpus.get(instance.type, 0)), ("efa", instance.efa)):
            if seen[name] != wanted:
                notes.fail(f"{address}: the first boot saw {seen[name]} {name}, but EC2 reports {wanted} for {instance.type}")


def check_ranks(notes: Notebook, reports: Sequence[Mapping[str, Any]], slots: Mapping[str, int]) -> None:
    """Check that each host ran one rank per slot, and that the allreduce returned the correct sum.

    `slots`: host name -> number of slots that the node published.
    """
    total = sum(slots.values())
    where = Counter(one["host"].split(".")[0] for one in reports)
    notes.saw("mpiexec: ranks by host", ", ".join(f"{number} on {host}" for host, number in sorted(where.items())) or "none")
    if dict(where) != dict(slots):
        wanted = ", ".join(f"{number} on {host}" for host, number in sorted(slots.items()))
        notes.fail(f"the ranks did not run where the hostfile places them: expected {wanted}")
    right = total * (total + 1) // 2
    sums = sorted({one["sum"] for one in reports})
    notes.saw("mpiexec: allreduce over all ranks", ", ".join(map(str, sums)) or "none")
    if sums != [right]:
        notes.fail(f"allreduce returned {', '.join(map(str, sums)) or 'nothing'}; expected {right}")


def host_name(address: str) -> str:
    """Return the host name that EC2 assigns to an instance.

    >>> host_name("10.0.1.2")
    'ip-10-0-1-2'
    """
    return f"ip-{address.replace('.', '-')}"
