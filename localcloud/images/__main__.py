"""`python -m localcloud.images`: build all images that are not cached, and print the path of each image."""

import sys

from localcloud.images.build import ensure_all_images
from localcloud.images.root import ImageError


def main() -> int:
    try:
        for layout in ensure_all_images(lambda line: print(line, file=sys.stderr, flush=True)):
            print(layout)
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
