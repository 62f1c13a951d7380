"""The committed pictures match the current output of docs/pictures.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = sorted(path.stem for path in (ROOT / "docs" / "pictures").glob("*.svg"))


def check_pictures(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "docs" / "pictures.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "40"}], ids=["here", "dumb terminal"])
def test_the_terminal_pictures_are_up_to_date_in_any_environment(environment: dict[str, str]) -> None:
    done = check_pictures(ROOT, **environment)
    assert done.returncode == 0, done.stderr


def test_the_documentation_has_four_terminal_pictures() -> None:
    assert PICTURES == ["architecture", "demo", "plan", "status"]


@pytest.mark.parametrize("name", PICTURES)
def test_check_names_an_outdated_picture(tmp_path: Path, name: str) -> None:
    shutil.copytree(ROOT / "docs" / "pictures", tmp_path / "docs" / "pictures")
    shutil.copy(ROOT / "docs" / "pictures.py", tmp_path / "docs")
    for path in ROOT.iterdir():
        if path.name != "docs" and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "docs" / "pictures" / f"{name}.svg").write_text("<svg/>")
    done = check_pictures(tmp_path)
    assert done.returncode == 1 and f"docs/pictures/{name}.svg is out of date" in done.stderr


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_loads_no_external_resources(name: str) -> None:
    text = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text()
    assert "url(http" not in text and "@import" not in text and "@font-face" not in text
