"""The tools, each pinned by the `go.mod` and `go.sum` of its wrapper module beside this file."""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Tool:
    """One program, built from a wrapper module with a `tool` directive."""

    name: str
    version: str
    package: str
    """Go import path of the program."""
    variables: tuple[str, ...] = ()
    """`name=value` that the linker sets, e.g. the version that the program reports."""

    @property
    def module(self) -> Path:
        return HERE / self.name


PULUMI = Tool(
    name="pulumi",
    version="3.246.0",
    package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    variables=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v3.246.0",),
)

TOOLS = (PULUMI,)
