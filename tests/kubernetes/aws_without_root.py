"""`python -m tests.kubernetes.aws_without_root`: run the local AWS as if this machine could not run real nodes."""

import sys

from localcloud.aws.__main__ import main
from localcloud.kubernetes import capability

REASON = "a test pretends not to be root"
NOTHING = capability.Capability((REASON,))

if __name__ == "__main__":
    capability.check_machine = lambda: NOTHING
    sys.exit(main())
