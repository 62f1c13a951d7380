"""Import the module of a verb only when the verb runs, and handle the errors of all verbs in one place.

Pattern: https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, getdoc, signature
from itertools import takewhile
from typing import Any, Final, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from cli import errors, exit_codes, installation
from cli.errors import CommandError

KEYWORD: Final = Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Verb:
    """A verb, or a group of verbs, in the table `cli.main.VERBS`."""

    module: str
    """Module in `cli`; empty for a group of verbs."""
    summary: str
    function: str = "command"
    """The function declares options and returns the exit code. Its docstring is part of `--help`."""
    needs_clone: bool = False
    """Whether the verb uses files that the wheel does not contain."""
    verbs: "Mapping[str, Verb]" = field(default_factory=dict)
    """Subcommands, if this is a group of verbs."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """Click's context settings."""


class LazyCommand(TyperCommand):
    """Placeholder that knows only a command's summary. It imports the command when the user runs the command."""

    def __init__(self, path: str, verb: Verb, panel: str | None = None) -> None:
        super().__init__(path.rpartition(" ")[2], help=verb.summary, rich_help_panel=panel)
        self._path, self._verb = path, verb

    def load(self) -> Any:
        """Load and return the real command.

        Raises CommandError if the command needs a clone of the repository, but the program was installed from a wheel.
        """
        if self._verb.needs_clone and installation.CLONE is None:
            raise CommandError(f"`{self._path}` needs files from the repository; clone it and run the command there")
        callback = getattr(import_module(f"cli.{self._verb.module}"), self._verb.function)
        text = "\n\n".join(filter(None, (self._verb.summary, getdoc(callback))))
        app = typer.Typer(add_completion=False)
        app.command(self.name, help=text, epilog=exit_codes.render_exit_code_help(), context_settings=dict(self._verb.context))(
            flatten_dataclass_parameters(callback)
        )
        return typer.main.get_command(app)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


def flatten_dataclass_parameters(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function with one parameter per field of each parameter that is a dataclass, because Typer reads the
    options of a verb from the parameters of its function."""
    parameters = signature(function, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}
    flat: list[Parameter] = []
    for parameter in parameters:
        group = groups.get(parameter.name)
        types = get_type_hints(group, include_extras=True) if group else {}
        flat += (
            [_make_parameter(part, types[part.name]) for part in fields(group)] if group else [parameter.replace(kind=KEYWORD)]
        )

    def call_function(**values: Any) -> int:
        grouped = {name: kind(**{part.name: values.pop(part.name) for part in fields(kind)}) for name, kind in groups.items()}
        return function(**values, **grouped)

    call_function.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    return call_function


def _make_parameter(field: "Field[Any]", annotation: Any) -> Parameter:
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, KEYWORD, default=default, annotation=annotation)


def build_commands(verbs: Mapping[str, Verb], panel: str | None = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the Click commands for a table of verbs."""
    for name, verb in verbs.items():
        if verb.verbs:
            inner = dict(build_commands(verb.verbs, before=f"{name} "))
            yield name, TyperGroup(name=name, commands=inner, help=verb.summary, rich_help_panel=panel, no_args_is_help=True)
        else:
            yield name, LazyCommand(f"{before}{name}", verb, panel)


class Program(TyperGroup):
    """Root command: runs a verb and converts its errors into a message and an exit code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._as_json = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._as_json = "--json" in takewhile(lambda word: word != "--", args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        words = [*ctx._protected_args, *ctx.args]
        try:
            code = super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            exit_code = errors.find_exit_code(error)
            if exit_code is None and self._as_json and hasattr(error, "format_message"):  # usage error reported by Click
                exit_code, error = exit_codes.USAGE, CommandError(error.format_message())
            if exit_code is None:
                raise
            errors.print_error(error, exit_code, _find_verb(self, words), as_json=self._as_json)
            code = exit_code
        raise typer.Exit(code or exit_codes.OK)


def _find_verb(group: TyperGroup, words: list[str]) -> str:
    """Return the verb of a command line, such as `validate` or `local start`."""
    first, *rest = [*words, ""]
    inner = group.commands.get(first)
    return f"{first} {_find_verb(inner, rest)}".strip() if isinstance(inner, TyperGroup) else first if inner else ""
