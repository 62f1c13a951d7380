"""`python -m localcloud.tools`: build every tool that the cache lacks and print where each is."""

import sys

from localcloud.tools.build import BuildError, ensure
from localcloud.tools.catalogue import TOOLS


def main() -> int:
    try:
        for tool in TOOLS:
            print(ensure(tool, lambda line: print(line, file=sys.stderr, flush=True)))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
