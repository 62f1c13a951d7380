"""End the Pulumi program with an error that the user sees exactly once."""

import warnings
from typing import Final, NoReturn

import pulumi

SHOWN: Final = 32
"""Exit code that tells Pulumi's language host that the program has already shown its error. `pulumi.RunError` is no
alternative: the official language host's script then exits with 1, and the host adds "an unhandled error occurred:
Program exited with non-zero exit code: 1".
pulumi/pulumi@v3.246.0:sdk/python/cmd/pulumi-language-python-exec and pulumi-language-python/main.go (Run)
"""


class Stopped(SystemExit):
    """Ends the program after it has reported an error."""

    def __init__(self, text: str) -> None:
        super().__init__(SHOWN)
        self.text = text

    def __str__(self) -> str:
        return self.text


def stop_with_error(text: str) -> NoReturn:
    """Report an error, without a traceback, and end the program. Raises Stopped."""
    pulumi.log.error(text)
    # Ending the program drops the requests that the SDK has queued. Without the filter, Python would warn about each
    # dropped request.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
    raise Stopped(text)
