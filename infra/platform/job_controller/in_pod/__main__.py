"""Entry point of the controller's pod: `python3 -m job_controller NAMESPACE...`."""

import sys

from .controller import main

sys.exit(main(sys.argv[1:]))
