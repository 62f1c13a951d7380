"""Pinned versions."""

from importlib.metadata import version
from pathlib import Path

from infra import versions
from infra.settings.targets import EksTarget

ROOT = Path(__file__).parent.parent.parent


def test_default_kubernetes_version_is_in_standard_support_but_not_the_newest() -> None:
    assert versions.KUBERNETES_VERSIONS == ("1.35", "1.36")
    assert EksTarget(kind="eks").kubernetes_version == "1.35"


def test_requirements_are_pinned_exactly_with_a_reason_and_installed() -> None:
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        pin, _, reason = line.partition("#")
        name, _, pinned_version = pin.strip().partition("==")
        assert reason.strip(), f"{name}: why?"
        assert version(name) == pinned_version
