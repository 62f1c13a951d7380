"""What verbs end with, so that scripts can tell."""

from typing import Final

FINE: Final = 0
JOB_FAILED: Final = 1
"""The job ended, and not well: failed, past its deadline, or removed while somebody looked on."""
USAGE: Final = 2
REFUSED: Final = 3
"""The input has problems, or something of that name is there already; nothing was created."""
NOT_FOUND: Final = 4
"""No such job, namespace, stack or file."""
NO_CLUSTER: Final = 5
"""No cluster answers, or it does not let us in."""
INTERRUPTED: Final = 130
"""^C, as a shell counts it: 128 and the number of SIGINT."""
