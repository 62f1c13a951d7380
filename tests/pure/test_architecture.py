"""Packages import each other in one direction only, and nothing in the program checks whether it runs locally."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
INFRA = ROOT / "infra"
MODULES = sorted(INFRA.rglob("*.py"))
COMPONENTS = sorted((INFRA / "components").glob("*.py"))
BASE = {"naming", "versions"}
ARROWS: dict[str, set[str]] = {
    "naming": set(),
    "versions": set(),
    "config": set(),
    "cost": set(),
    "health": {"naming"},
    "kubernetes": {"config"},
    "monitoring": {"naming", "health"},
    "jobs": {*BASE, "config"},
    "settings": {"naming", "config", "jobs"},
    "facts": {*BASE, "cost", "settings", "config", "jobs", "kubernetes"},
    "plan": {*BASE, "cost", "health", "settings", "facts", "boot", "jobs", "monitoring"},
    "inventory": {*BASE, "clusters", "cost", "facts", "plan", "settings"},
    "validation": {*BASE, "settings", "config", "facts", "inventory", "plan", "jobs"},
    "preflight": {"settings", "config", "facts", "validation"},
    "checks": {*BASE, "settings", "config", "facts", "inventory", "validation", "plan", "jobs", "preflight"},
    "boot": BASE,
    "components": {*BASE, "boot", "plan"},
    "platform": {*BASE, "health", "jobs", "facts", "monitoring", "settings"},
    "recovery": {"facts", "inventory"},
    "outputs": {"components", "plan", "jobs", "kubernetes"},
    "clusters": {*BASE, "settings", "facts", "plan", "components", "platform", "jobs", "kubernetes", "outputs"},
    "program": {"clusters", "config", "facts", "kubernetes", "naming", "preflight", "settings"},
}
"""Maps a package or module in infra/ to the other ones that it may import. CONTRIBUTING.md explains the order."""
IMAGE_NAMES = INFRA / "jobs" / "images.py"
"""This module may contain `localhost`, which container runtimes treat as a registry in an image name."""
SHARED_PARTS = ("__init__", "children", "endpoint_policies", "file_system", "iam", "launch_template", "trust_policies")
"""Modules in infra/components that several components use."""
BASES = {"pulumi.ComponentResource", "FileSystem"}
"""Base classes of components."""
FOR_COMPONENTS = {
    *("infra.boot", "infra.components", "infra.naming", "infra.versions"),
    *("infra.plan.efa_interfaces", "infra.plan.specs", "infra.plan.subnet_cidrs"),
}
"""Modules that components may import. They include the specs in `infra.plan`, but not its decision code."""


def list_imports(path: Path) -> set[str]:
    """Return the modules that a file imports; `from infra import x` counts as `infra.x`."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            modules |= {f"{module}.{alias.name}" for alias in node.names} if module == "infra" else {module}
    return modules


def find_import_cycle(folder: Path) -> list[str]:
    """Return the modules of an import cycle, or an empty list if there is none."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in folder.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
        targets = {(f"{node.module}.{alias.name}", str(node.module)) for node in nodes for alias in node.names}
        graph[module] = {full if full in paths else parent for full, parent in targets} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def to_relative_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_architecture_tests_find_modules_and_components() -> None:
    assert len(MODULES) > 30 and len(COMPONENTS) > 8


@pytest.mark.parametrize("path", MODULES, ids=to_relative_path)
def test_infra_never_imports_localcloud(path: Path) -> None:
    assert not {module for module in list_imports(path) if module.split(".")[0] in ("localcloud", "cli", "moto", "tests")}


@pytest.mark.parametrize("path", MODULES, ids=to_relative_path)
def test_infra_never_checks_whether_it_runs_locally(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bif\b[^\n]*\blocal(cloud|host|stack)?\b", text.replace("locally", "")), "no `if local`"
    host = "" if path == IMAGE_NAMES else "|localhost"
    assert not re.search(rf"AWS_ENDPOINT_URL|127\.0\.0\.1{host}", text)


def find_package(module: str) -> str:
    """Return a module's package in infra/: `facts` for `infra.facts.ec2`."""
    return module.split(".")[1]


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent != INFRA or path.stem in ARROWS], ids=to_relative_path)
def test_imports_follow_layer_order(path: Path) -> None:
    own = path.relative_to(INFRA).parts[0].removesuffix(".py")
    imported = {find_package(module) for module in list_imports(path) if module.startswith("infra.")} - {own}
    assert not imported - ARROWS[own]


def test_packages_form_a_directed_acyclic_graph() -> None:
    TopologicalSorter(ARROWS).prepare()


@pytest.mark.parametrize("folder", ["infra", "cli", "amis/join", "bench", "localcloud", "testkit"])
def test_no_import_cycle(folder: str) -> None:
    assert find_import_cycle(ROOT / folder) == []


@pytest.mark.parametrize("folder", ["bench", "testkit", "localcloud"])
def test_only_tests_import_tests(folder: str) -> None:
    users = {
        to_relative_path(path): {mod for mod in list_imports(path) if mod.split(".")[0] == "tests"}
        for path in (ROOT / folder).rglob("*.py")
    }
    assert users and not {path: modules for path, modules in users.items() if modules}


@pytest.mark.parametrize("path", COMPONENTS, ids=to_relative_path)
def test_components_import_neither_settings_nor_aws_facts(path: Path) -> None:
    ours = {module for module in list_imports(path) if module.split(".")[0] == "infra"}
    assert not {name for name in ours if not any(name == root or name.startswith(f"{root}.") for root in FOR_COMPONENTS)}


@pytest.mark.parametrize("path", COMPONENTS, ids=to_relative_path)
def test_components_read_no_configuration_and_do_no_lookups(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "pulumi.Config" not in text
    assert not re.search(r"\baws(\.\w+)?\.get_\w+\(", text), "move the lookup to infra.facts"


@pytest.mark.parametrize("path", [path for path in COMPONENTS if path.stem not in SHARED_PARTS], ids=to_relative_path)
def test_every_component_documents_itself_and_registers_its_outputs(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and BASES & {ast.unparse(base) for base in node.bases}
    ]
    assert len(classes) == 1, "each file defines one component"
    component = classes[0]
    assert (ast.get_docstring(component) or "").startswith("Creates")
    init = next(node for node in component.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert ast.unparse(init.body[-1]).startswith("self.register_outputs(")


def test_only_program_module_reads_pulumi_configuration() -> None:
    readers = [path.name for path in MODULES if "runtime import config" in path.read_text(encoding="utf-8")]
    assert readers == ["stack_file.py"]


@pytest.mark.parametrize("path", MODULES, ids=to_relative_path)
def test_no_module_has_a_generic_name(path: Path) -> None:
    assert path.stem not in ("utils", "helpers", "common", "misc")


def test_build_function_fits_on_one_screen() -> None:
    tree = ast.parse((INFRA / "program.py").read_text(encoding="utf-8"))
    build = next(
        statement for statement in tree.body if isinstance(statement, ast.FunctionDef) and statement.name == "build_aws_cluster"
    )
    assert build.end_lineno is not None and build.end_lineno - build.lineno < 60


def test_importing_program_does_not_load_boto3() -> None:
    """Every import slows down `pulumi preview`, and only the code that gathers facts needs AWS clients."""
    code = "import sys, infra.program; print(sorted({'boto3', 'botocore', 'pulumi_kubernetes', 'moto'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
