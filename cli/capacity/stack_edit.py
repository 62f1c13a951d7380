"""Set the Capacity Block of a pool in a stack file. Preserves the file's comments, order and quotes."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from cli.errors import CommandError
from cli.exit_codes import REFUSED

POOLS: Final = "gpumpi:pools"
WIDTH: Final = 4096
"""Line width for the YAML writer, larger than any line, so that it wraps none."""


def insert_block(text: str, pool: str | None, instance_type: str, reservation: str, zone: str, nodes: int) -> tuple[str, str]:
    """Return the changed file and the name of the changed pool. Raises CommandError if no pool fits.

    Sets the size of the pool to 0, because nodes cannot start before the block does.
    """
    yaml = make_yaml_parser(text)
    try:
        document = yaml.load(text)
    except YAMLError as error:
        raise CommandError(f"the stack file is not YAML: {' '.join(str(error).split())}", REFUSED) from None
    pool_entry = find_pool(document, pool, instance_type)
    pool_entry["capacity"] = make_flow_mapping({"kind": "capacity-block", "reservationId": reservation})
    pool_entry["minSize"] = 0
    if "desiredSize" in pool_entry:
        pool_entry["desiredSize"] = 0
    pool_entry["maxSize"] = min(int(pool_entry.get("maxSize", nodes)), nodes)
    if pool_entry.get("zone") not in (None, zone):
        pool_entry["zone"] = zone
    if pool_entry.get("placementGroup") not in (None, "auto", "none"):
        del pool_entry["placementGroup"]
    written = io.StringIO()
    yaml.dump(document, written)
    return written.getvalue(), str(pool_entry["name"])


def make_yaml_parser(text: str) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDTH
    sequence, offset = detect_indents(text)
    yaml.indent(mapping=2, sequence=sequence, offset=offset)
    return yaml


def detect_indents(text: str) -> tuple[int, int]:
    """Return the indentation of a pool's fields and of its `- `, relative to the key: `sequence` and `offset` of the
    YAML writer.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.strip().startswith(f"{POOLS}:"):
            key = len(line) - len(line.lstrip())
            item = next((line for line in lines[number + 1 :] if line.lstrip().startswith("- ")), "")
            offset = max(len(item) - len(item.lstrip()) - key, 0)
            return offset + 2, offset
    return 4, 2


def find_pool(document: Any, name: str | None, instance_type: str) -> Any:
    config = document.get("config") if isinstance(document, Mapping) else None
    pools = config.get(POOLS) if isinstance(config, Mapping) else None
    if not isinstance(pools, Sequence) or isinstance(pools, str):
        raise CommandError(f"config.{POOLS}: is missing. Add a pool with instanceType: {instance_type}", REFUSED)
    fitting = [entry for entry in pools if entry.get("instanceType") == instance_type and name in (None, entry.get("name"))]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(str(entry.get("name")) for entry in fitting)
        raise CommandError(f"{len(fitting)} pools have {instance_type}: {names}. Choose one with --pool", REFUSED)
    which = f"pool {name} with" if name else "pool with"
    raise CommandError(f"{POOLS}: there is no {which} instanceType: {instance_type}. Add one", REFUSED)


def make_flow_mapping(values: Mapping[str, str]) -> CommentedMap:
    """Return a mapping in YAML's flow style, on one line."""
    content = CommentedMap(values)
    content.fa.set_flow_style()
    return content
