"""Finds the commands that a test runs, from the source code of the test and of the helpers and fixtures it uses."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPTH = 4
"""Maximum call depth from a test to a helper."""

PROGRAMS = {
    "cluster": "scripts/cluster",
    "_cluster": "scripts/cluster",
    "run_cli": "scripts/cluster",
    "run_capacity_command": "scripts/cluster",
    "_run_cli": "scripts/cluster",
    "run_in_background": "scripts/cluster",
    "run_command": "scripts/cluster",
    "start_command": "scripts/cluster",
    "kubectl": "kubectl",
    "ssh": "ssh",
    "run_mpirun": "mpirun",
}
"""Maps a test helper to the program that it runs with the given arguments."""
PULUMI = ("preview", "up", "refresh", "destroy")
RUNNERS = ("run", "run_checked", "start", "_run", "run_as_root")
"""Helpers whose first argument is the program or a Pulumi command."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Evidence:
    """Programs that a test runs, and the string constants in its code."""

    file: Path
    calls: set[tuple[str, ...]] = field(default_factory=set)
    """The program and the constant arguments of each call, in order."""
    words: set[str] = field(default_factory=set)
    """All string constants: parameters, options in lists, file names."""

    def has_command(self, command: str) -> bool:
        """Return whether the test runs the command. Words in capitals are placeholders for the test's values."""
        program, *rest = command.split()
        if program == "pytest":
            return self.file.is_relative_to(ROOT / rest[0])
        if program == "make":
            return any(self.has_command(command) for command in read_recipe(rest[0]))
        fixed, *options = [word for word in rest if not word.isupper() and word != "JOB.yaml"] or [""]
        return any(
            call[0] == program and (not fixed or fixed in call[1:]) and all(self._has_word(word, call) for word in options)
            for call in self.calls
        )

    def _has_word(self, word: str, call: tuple[str, ...]) -> bool:
        return word in call or all(part in self.words for part in word.split("/"))


@dataclass(frozen=True)
class Module:
    """A test or helper module: the names that it defines and imports."""

    path: Path
    defined: dict[str, ast.stmt]
    imported: dict[str, tuple[str, str]]
    """Maps an imported name to its source module and to the definition's name in that module."""


@cache
def parse_module(path: Path) -> Module:
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, Function | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {name.id: node for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return Module(path, defined, imported)


def read_recipe(target: str) -> list[str]:
    """Return the commands of a Makefile target, without the path of the Python interpreter."""
    text = (ROOT / "Makefile").read_text()
    (recipes,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    lines = [line.strip().removeprefix("@").removeprefix("$(BIN)/python ") for line in recipes.splitlines()]
    return [f"pytest {line.split()[-1]}" if line.startswith("-m pytest") else line for line in lines]


def collect_evidence(path: Path, function: Function) -> Evidence:
    """Return the programs that a test function runs."""
    proof = Evidence(path)
    _collect_calls(parse_module(path), function, proof, DEPTH, set())
    return proof


def _collect_calls(where: Module, node: ast.stmt, proof: Evidence, depth: int, visited: set[ast.stmt]) -> None:
    if node in visited:
        return
    visited.add(node)
    proof.words |= {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    proof.calls |= {call for part in ast.walk(node) if isinstance(part, ast.Call) and (call := _parse_call(where, part))}
    if not depth:
        return
    attributes = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    for name in sorted(_find_names(node)):
        for there, definition in _find_definitions(where, name):
            parts = _find_methods(definition, attributes) if isinstance(definition, ast.ClassDef) else [definition]
            for part in parts:
                _collect_calls(there, part, proof, depth - 1, visited)


def _find_methods(definition: ast.ClassDef, names: set[str]) -> list[ast.stmt]:
    return [statement for statement in definition.body if isinstance(statement, Function) and statement.name in names]


def _parse_call(where: Module, call: ast.Call) -> tuple[str, ...] | None:
    """Return the program and its constant arguments; None if the call runs no program."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    words = list(_find_constants(where, call.args))
    if name in PROGRAMS:
        return PROGRAMS[name], *words
    if name == "outputs":
        return "pulumi", "stack", "output"
    if not words:
        return None
    if name in RUNNERS and words[0] in PULUMI:
        return "pulumi", *words
    if name in RUNNERS:
        return words[0].rpartition("/")[2], *words[1:]
    return None


def _find_constants(where: Module, nodes: Sequence[ast.expr]) -> Iterator[str]:
    for node in nodes:
        definition = where.defined.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(definition, ast.Assign):
            node = definition.value
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield from part.value.split() if isinstance(node, ast.JoinedStr) else [part.value]


def _find_names(node: ast.stmt) -> set[str]:
    """Return the names that a definition uses: variables, parameters (which are fixtures in tests) and annotations."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}


def _find_definitions(where: Module, name: str) -> Iterator[tuple[Module, ast.stmt]]:
    """Yield the definitions of a name: in the module, in the module it is imported from, or in a conftest.py."""
    if name in where.defined:
        yield where, where.defined[name]
        return
    if name in where.imported:
        source, original = where.imported[name]
        path = ROOT.joinpath(*source.split(".")).with_suffix(".py")
        if source.split(".")[0] in ("tests", "testkit", "cli") and path.exists():
            there = parse_module(path)
            if original in there.defined:
                yield there, there.defined[original]
        return
    for folder in where.path.parents:
        conftest = folder / "conftest.py"
        if conftest.exists() and name in parse_module(conftest).defined:
            yield parse_module(conftest), parse_module(conftest).defined[name]
            return
        if folder == ROOT:
            return
