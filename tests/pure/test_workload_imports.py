"""Workloads run only in job images, and mypy does not read their folders. Renaming a function must not break them."""

import ast
from pathlib import Path

import pytest

FOLDERS = sorted(
    folder for folder in (Path(__file__).parent.parent.parent / "workloads").iterdir() if len([*folder.glob("*.py")]) > 1
)


def list_defined_names(tree: ast.Module) -> set[str]:
    definitions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return definitions | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def list_used_names(tree: ast.Module, module: str) -> set[str]:
    """Return the names of a module that a program imports, or uses as attributes of the module."""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module in imported:
            names.add(node.attr)
    return names


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_programs_of_a_workload_use_only_names_that_its_modules_define(folder: Path) -> None:
    modules = {path.stem: ast.parse(path.read_text()) for path in folder.glob("*.py")}
    used = {(module, name) for program in modules.values() for module in modules for name in list_used_names(program, module)}
    assert used != set()
    assert {(module, name) for module, name in used if name not in list_defined_names(modules[module])} == set()
