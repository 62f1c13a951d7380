"""`python -m bench.scale`: duration of Pulumi operations for stacks of about 100 to 500 resources."""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from bench.platform_cluster import describe_machine
from bench.up import measure_operation
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack

POOLS = (1, 8, 16, 24)
"""Numbers of pools to measure. Each pool has about 20 resources."""


def write_stack_file(folder: Path, pools: int) -> str:
    """Write a stack file with this many pools and return the stack's name."""
    name = f"scale-{pools}"
    entries = [{"name": f"pool{number}", "instanceType": "g6.8xlarge", "maxSize": 1} for number in range(pools)]
    config = {"aws:region": "us-west-2", "gpumpi:target": {"kind": "eks"}, "gpumpi:pools": entries}
    (folder / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": config}))
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    about = describe_machine()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        cloud = LocalCloud(folder / "cloud")
        try:
            cloud.start(lambda line: print(line, file=sys.stderr))
            for pools in POOLS:
                stack = LocalStack(cloud, write_stack_file(folder, pools), folder)
                stack.prepare()
                up = measure_operation(cloud, stack, "up", "up")
                unchanged = measure_operation(cloud, stack, "up, unchanged", "up")
                destroy = measure_operation(cloud, stack, "destroy", "destroy")
                resources = sum(up.run.changes.values())
                row = {"pools": pools, "resources": resources, "up": up.run.seconds, "unchanged": unchanged.run.seconds}
                rows.append(row | {"destroy": destroy.run.seconds, "perResource": up.run.seconds / resources})
        finally:
            cloud.stop()
    if arguments.json:
        print(json.dumps({**about, "rows": rows}, indent=1))
        return
    table = Table("pools", "resources", "up s", "unchanged up s", "destroy s", "up s per resource")
    for row in rows:
        figures = (f"{row[key]:.1f}" for key in ("up", "unchanged", "destroy"))
        table.add_row(str(row["pools"]), str(row["resources"]), *figures, f"{row['perResource']:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
