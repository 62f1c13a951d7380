"""Finds the tests of each mission row, from the `mission` markers in the tests' source code."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.mission.rows import Row

TESTS = Path(__file__).parents[1]


Marked = tuple[tuple[str, str], Path, ast.FunctionDef]
"""Row, file and test function."""


@cache
def list_markers() -> tuple[Marked, ...]:
    """Return the row of each `mission` marker with its test function. Parses all test files once."""
    return tuple(_read_markers())


def _read_markers() -> Iterator[Marked]:
    for file in sorted(TESTS.rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            for mark in function.decorator_list if isinstance(function, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "mission":
                    system, name = (ast.literal_eval(argument) for argument in mark.args)
                    yield (system, name), file, function


def find_marked_tests(row: Row) -> set[str]:
    """Return the test functions of a row, in the form `tests/folder/file.py::function`."""
    matching = ((name, file, function) for name, file, function in list_markers() if name == (row.system, row.name))
    return {f"{file.relative_to(TESTS.parent)}::{function.name}" for _, file, function in matching}
