"""Entry point of the Pulumi program.

The program runs once, and most of its objects stay in use until it exits. Disabling garbage collection, even at exit,
saves a quarter of the CPU time (docs/measurements/tests.md).
"""

import atexit
import gc

gc.disable()
atexit.register(gc.freeze)

from infra.program import run_program  # noqa: E402  garbage collection must be off before the imports

run_program()
