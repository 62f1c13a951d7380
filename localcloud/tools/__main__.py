"""`python -m localcloud.tools`: install every tool that is missing from the cache, and print each path."""

import sys

from localcloud.tools import debian, language_exec
from localcloud.tools.build import BuildError, ensure_tool
from localcloud.tools.catalogue import TOOLS


def print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    try:
        for tool in TOOLS:
            print(ensure_tool(tool, print_progress))
        print(language_exec.ensure_script(print_progress))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    for package in debian.PACKAGES:
        try:
            print(debian.ensure_package(package, print_progress))
        except BuildError as error:  # continue: only local Kubernetes needs the package, and will report the error again
            print(error, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
