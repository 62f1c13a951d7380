"""`python -m bench.trust`: try hostile inputs on every surface that reads what others have written.

Prints the number of inputs per surface and the violations, which must all be 0. Exits with 1 if there is one. The same
seed and count give the same inputs.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.platform_cluster import describe_machine, print_progress
from bench.trust.folder_files import try_folder_names, try_git_folders
from bench.trust.job_files import try_job_files
from bench.trust.job_folders import try_folders
from bench.trust.job_records import try_records
from bench.trust.judge import Surface, try_surface
from bench.trust.notices import try_notices
from bench.trust.requests import try_dashboard, try_local_cloud
from bench.trust.stack_files import try_stack_files
from bench.trust.terminal import try_terminal

COUNT: Final = 10_000
SURFACES: Final[Mapping[str, Surface]] = {
    "objects of a namespace -> job controller": try_records,
    "ConfigMaps of a namespace -> verbs for jobs": try_folders,
    "texts of jobs, logs and nodes -> terminal": try_terminal,
    "notices of EC2 nodes -> SSH files": try_notices,
    "stack files -> parser": try_stack_files,
    "job files, manifests and Slurm scripts -> submit, import": try_job_files,
    "names and links of a folder -> --workdir": try_folder_names,
    "git configuration of a folder -> --workdir": try_git_folders,
    "HTTP requests -> dashboard": try_dashboard,
    "HTTP requests -> local cloud": try_local_cloud,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="number of inputs per surface")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--surface", choices=SURFACES, help="try only this surface")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    about = describe_machine()
    judges, started = [], time.monotonic()
    for name in [arguments.surface] if arguments.surface else SURFACES:
        judges.append(try_surface(name, SURFACES[name], arguments.seed, arguments.count))
        print_progress(f"{name}: {judges[-1].tried} inputs, {time.monotonic() - started:.0f} s")
    rows = [judge.to_row() for judge in judges]
    examples = [example for judge in judges for example in judge.examples]
    if arguments.json:
        print(json.dumps({**about, "seed": arguments.seed, "rows": rows, "examples": examples}, indent=1))
    else:
        table = Table(*rows[0], title=f"hostile inputs, seed {arguments.seed}")
        for row in rows:
            table.add_row(*map(str, row.values()))
        Console().print(table)
        for example in examples:
            Console(markup=False, highlight=False).print(example.encode("ascii", "backslashreplace").decode())
    sys.exit(0 if all(judge.is_clean for judge in judges) else 1)


if __name__ == "__main__":
    main()
