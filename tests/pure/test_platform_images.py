"""Images that `up` builds before Pulumi waits for the pods that use them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.config import stack_file
from localcloud.images import build, stack_images
from localcloud.images.catalogue import MONITORING_IMAGES, PLATFORM_IMAGES, TRAINER_IMAGES, Image
from localcloud.images.root import ImageError
from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from localcloud.stack import LocalStack

STACKS = Path(__file__).parents[2] / "stacks"


def images(name: str, **platform: Any) -> tuple[Image, ...]:
    raw = stack_file.read(STACKS / f"Pulumi.{name}.yaml")
    return stack_images.of_platform(replace(raw, values={**raw.values, "platform": platform}))


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
def test_images_are_those_of_the_components_that_the_stack_installs(
    platform: dict[str, Any], expected: tuple[Image, ...]
) -> None:
    assert images("local", **platform) == expected


@pytest.mark.parametrize("name", ["local-ec2", "09-on-premises"])
def test_ec2_stacks_and_existing_clusters_need_no_images(name: str) -> None:
    assert stack_images.of_platform(stack_file.read(STACKS / f"Pulumi.{name}.yaml")) == ()


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStack:
    """A stack on a machine that can run nodes. No image can be built, and starting the engine fails the test."""

    def fail(image: Image, report: build.Report) -> Path:
        raise ImageError(f"image {image.name}: cannot be built")

    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("the engine was started")

    monkeypatch.setattr(build, "ensure_image", fail)
    monkeypatch.setattr(capability, "examine", lambda: capability.Capability(()))
    monkeypatch.setattr(LocalStack, "started", start)
    stack = LocalStack(LocalCloud(tmp_path), "local")
    stack.project.mkdir(parents=True)
    stack.config_file.write_text(stack.source.read_text())
    return stack


def test_up_builds_images_before_it_starts_the_engine(stack: LocalStack) -> None:
    with pytest.raises(ImageError, match=PLATFORM_IMAGES[0].name.partition(":")[0]):
        stack.run("up")


@pytest.mark.parametrize("verb", ["preview", "refresh", "destroy"])
def test_other_operations_build_no_images(stack: LocalStack, verb: Any) -> None:
    with pytest.raises(AssertionError, match="the engine was started"):
        stack.run(verb)


def test_up_of_an_ec2_stack_builds_no_images(stack: LocalStack) -> None:
    stack.config_file.write_text((STACKS / "Pulumi.local-ec2.yaml").read_text())
    with pytest.raises(AssertionError, match="the engine was started"):
        stack.run("up")


def test_up_builds_no_images_on_a_machine_without_real_nodes(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "examine", lambda: capability.Capability(("unshare",)))
    with pytest.raises(AssertionError, match="the engine was started"):
        stack.run("up")
