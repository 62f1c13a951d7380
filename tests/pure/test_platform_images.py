"""The language host checks the local cloud, and `up` builds images before Pulumi waits for the pods that use them."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from infra import preflight
from infra.config import stack_file
from infra.config.problems import Problem
from localcloud import mending
from localcloud.engine import before_program
from localcloud.environment import LOCK
from localcloud.images import build, stack_images
from localcloud.images.catalogue import MONITORING_IMAGES, PLATFORM_IMAGES, TRAINER_IMAGES, Image
from localcloud.images.root import ImageError
from localcloud.kubernetes import capability

STACKS = Path(__file__).parents[2] / "stacks"


def list_images(name: str, **platform: Any) -> tuple[Image, ...]:
    raw = stack_file.read_stack_file(STACKS / f"Pulumi.{name}.yaml")
    return stack_images.list_platform_images(replace(raw, values={**raw.values, "platform": platform}))


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ({}, PLATFORM_IMAGES),
        ({"trainer": True}, PLATFORM_IMAGES + TRAINER_IMAGES),
        ({"monitoring": True}, PLATFORM_IMAGES + MONITORING_IMAGES),
        ({"install": False}, ()),
        ({"install": "perhaps"}, ()),
    ],
)
def test_images_match_the_components_installed_by_the_stack(platform: dict[str, Any], expected: tuple[Image, ...]) -> None:
    assert list_images("local", **platform) == expected


@pytest.mark.parametrize("name", ["local-ec2", "09-on-premises"])
def test_ec2_stacks_and_existing_clusters_need_no_images(name: str) -> None:
    assert stack_images.list_platform_images(stack_file.read_stack_file(STACKS / f"Pulumi.{name}.yaml")) == ()


@dataclass
class Host:
    """What the language host does before it runs a program, with a builder and an engine that record their calls."""

    monkeypatch: pytest.MonkeyPatch
    built: list[str]
    errors: list[str]

    def run(self, stack: str, *, dry_run: bool = False, code: int = 0) -> None:
        raw = stack_file.read_stack_file(STACKS / f"Pulumi.{stack}.yaml")
        self.monkeypatch.setattr(stack_file, "read_running_stack", lambda: raw)
        self.monkeypatch.setattr("sys.argv", ["before_program", "127.0.0.1:1", stack, str(dry_run).lower()])
        config = {f"gpumpi:{key}": json.dumps(value) for key, value in raw.values.items()}
        if before_program.may_install_platform(config):
            assert before_program.main() == code


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A local cloud with Kubernetes on a machine that can run nodes."""
    host = Host(monkeypatch, [], [])
    (tmp_path / "kubernetes").mkdir()
    (tmp_path / LOCK).touch()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'backend'}")
    monkeypatch.setattr(build, "ensure_image", lambda image, report: host.built.append(image.name))
    monkeypatch.setattr(capability, "check_machine", lambda: capability.Capability(()))
    monkeypatch.setattr(
        before_program, "_show_error", lambda engine, message: host.errors.append(message) or before_program.SHOWN
    )
    return host


def test_up_builds_platform_images_before_running_the_program(host: Host) -> None:
    host.run("local")
    assert host.built == [image.name for image in PLATFORM_IMAGES]


def test_preview_builds_no_images(host: Host) -> None:
    host.run("local", dry_run=True)
    assert host.built == []


@pytest.mark.parametrize("name", ["local-ec2", "09-on-premises"])
def test_up_of_stack_without_eks_builds_no_images(host: Host, name: str) -> None:
    host.run(name)
    assert host.built == []


def test_up_builds_no_images_on_a_machine_without_real_nodes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "check_machine", lambda: capability.Capability(("unshare",)))
    host.run("local")
    assert host.built == []


def test_stack_without_a_platform_needs_no_local_kubernetes(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubernetes").rmdir()
    monkeypatch.setattr(stack_images, "list_platform_images", lambda raw: ())
    host.run("local")
    assert host.errors == []


@pytest.mark.parametrize("value", ["true", "[1]", "5", "null", "{"])
def test_malformed_settings_are_reported_by_the_pulumi_program(host: Host, value: str) -> None:
    assert not before_program.may_install_platform({"gpumpi:target": '{"kind": "eks"}', "gpumpi:platform": value})
    assert not before_program.may_install_platform({"gpumpi:target": value})


def test_failed_image_build_ends_the_operation(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_build(image: Image, report: build.Report) -> Path:
        raise ImageError(f"image {image.name}: cannot be built")

    monkeypatch.setattr(build, "ensure_image", fail_build)
    host.run("local", code=before_program.SHOWN)
    assert host.errors == [f"image {PLATFORM_IMAGES[0].name}: cannot be built"]


def test_crashed_local_processes_abort_the_operation(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "list_crashed_processes", lambda cloud: ["etcd of cluster gpumpi-local"])
    host.run("local", dry_run=True, code=before_program.SHOWN)
    (error,) = host.errors
    assert error.startswith("not running: etcd of cluster gpumpi-local. Restart with: scripts/cluster local start --home ")


def test_preview_validates_the_stack_only_inside_the_program(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    examined = []
    monkeypatch.setattr(preflight, "examine_stack", lambda *_, **__: examined.append(1))
    host.run("local", dry_run=True)
    assert examined == []


def test_up_of_stack_with_problems_builds_no_images(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = (Problem("pools", "are wrong."),)
    monkeypatch.setattr(preflight, "examine_aws_stack", lambda raw, **_: preflight.Examined(None, problems=problems))
    host.run("local")
    assert host.built == []
