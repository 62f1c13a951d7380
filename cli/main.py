"""`scripts/cluster`: which verbs there are and what they take."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

ROOT = Path(__file__).resolve().parents[1]

LOCAL = "local"
LOCAL_HELP = "The local cloud: run stacks on this machine, without an AWS account."

CONTEXT = {"help_option_names": ["-h", "--help"]}


class _Verbs(TyperGroup):
    """The verbs below and `local`, whose own verbs are imported only on use: help must not wait for them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands, *([] if LOCAL in self.commands else [LOCAL])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == LOCAL and LOCAL not in self.commands:
            from cli.local import app as local

            return typer.main.get_command(local)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.commands[LOCAL] = TyperCommand(LOCAL, help=LOCAL_HELP)
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    add_completion=False,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    help="GPU clusters for MPI jobs: one YAML file per cluster.",
)


@app.callback()
def _group() -> None:
    """GPU clusters for MPI jobs: one YAML file per cluster."""


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


@app.command()
def validate(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the stack: NAME of Pulumi.NAME.yaml.")],
    config_dir: Annotated[Path | None, typer.Option(help="Folder of the stack file; stacks/ by default.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Look at the file only; ask AWS nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Print every problem of a stack, or what it will be. Starts nothing.

    Exit code: 0 no problem, 3 problems, 1 AWS cannot be asked, 2 wrong usage.
    """
    from cli import validate as verb

    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", offline=offline, as_json=as_json))


@app.command()
def settings(
    form: Annotated[str, typer.Option("--format", help="table, markdown or json.")] = "table",
) -> None:
    """Everything a stack file may say: meaning, default, and what a change does to a live cluster."""
    from cli import settings as verb

    raise typer.Exit(verb.run(form))


@app.command()
def recover(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the stack.")],
    as_json: Json = False,
) -> None:
    """After `pulumi` was killed: take away its lock and settle what it had begun. Only while nobody works on the stack.

    What AWS made of it goes into the stack's state, so that the next `pulumi up` or `destroy` goes on and nothing is made twice.
    """
    from cli import recover as verb

    raise typer.Exit(verb.run(stack, as_json=as_json))


@app.command()
def demo(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what Pulumi prints.")] = False,
    as_json: Json = False,
) -> None:
    """The whole life of a cluster on a local AWS, step by step."""
    from cli import demo as verb

    raise typer.Exit(verb.main(verbose=verbose, as_json=as_json))


def main() -> None:
    app(prog_name="cluster")
