"""Complete stack files: faulty files with their expected messages, and the smallest and largest valid files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra import preflight
from infra.config import stack_file
from infra.config.problems import SettingsError
from infra.facts import AddonVersions, CapacityReservation, Facts
from infra.preflight import examine_aws
from infra.settings.stack import Settings
from tests.pure.world import ADDON_VERSIONS, facts

CONFIGS = Path(__file__).parents[1] / "configs"
ERRORS = sorted(CONFIGS.glob("error.*.yaml"))
STACKS = [
    path for path in sorted((CONFIGS.parents[1] / "stacks").glob("Pulumi.*.yaml")) if "kind: existing" not in path.read_text()
]


def everything_exists(settings: Settings) -> Facts:
    """Return the facts of an account in which every resource that the stack refers to exists."""
    by_id = {pool.reservation_id: pool for pool in settings.pools if pool.reservation_id}
    reservations = {
        one: CapacityReservation(
            one,
            "capacity-block" if pool.capacity.kind == "capacity-block" else "default",
            "active",
            pool.instance_type,
            "us-west-2c",
            16,
            16,
        )
        for one, pool in by_id.items()
    }
    overrides = settings.eks.addon_versions if settings.is_eks else {}
    return facts(
        settings,
        addon_versions={
            **ADDON_VERSIONS,
            **{name: AddonVersions(frozenset({version}), None) for name, version in overrides.items()},
        },
        reservations=reservations,
        images={pool.ami_id: "x86_64" for pool in settings.pools if pool.ami_id},
        placement_groups={name: "cluster" for pool in settings.pools if (name := pool.own_placement_group)},
    )


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "gather", everything_exists)


def read(path: Path) -> stack_file.RawStack:
    return replace(stack_file.read(path), stack="test")


def test_there_are_error_files() -> None:
    assert len(ERRORS) >= 10


@pytest.mark.parametrize("path", ERRORS, ids=lambda path: path.stem)
def test_a_file_with_mistakes_gets_the_text_beside_it(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    problems = examine_aws(read(path)).problems
    assert "".join(f"{problem}\n" for problem in problems) == expected


@pytest.mark.parametrize("path", ERRORS, ids=lambda path: path.stem)
def test_a_program_gets_the_same_text(path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        _ = examine_aws(read(path)).whole
    assert f"{caught.value}\n" == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["minimal", "full", "full-ec2"])
def test_the_least_and_the_most_are_fine(name: str) -> None:
    settings, _ = examine_aws(read(CONFIGS / f"Pulumi.{name}.yaml")).whole
    assert settings.region == "us-west-2"


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_every_stack_of_the_project_is_fine_by_itself(path: Path) -> None:
    examined = examine_aws(stack_file.read(path), offline=True)
    assert examined.problems == ()
    assert examined.not_queried == "only the file was checked"


def test_the_full_files_say_everything_that_can_be_said() -> None:
    def settable(model: Any) -> set[str]:
        from pydantic import BaseModel

        from infra.config.models import leaf_types

        found = set()
        for field in model.model_fields.values():
            if field.exclude:
                continue
            found.add(field.alias)
            for leaf in leaf_types(field.annotation):
                for inner in (leaf, *getattr(leaf, "__args__", ())):
                    for one in leaf_types(inner):
                        if isinstance(one, type) and issubclass(one, BaseModel):
                            found |= settable(one)
        return found

    def said(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(said, value.values()))
        return set().union(*map(said, value)) if isinstance(value, list) else set()

    full = said(read(CONFIGS / "Pulumi.full.yaml").values) | said(read(CONFIGS / "Pulumi.full-ec2.yaml").values)
    alternatives = {"vpcId", "subnetIds", "fileSystemId", "addIngressRule", "imageRepository", "file"}
    only_existing_clusters, rejected = {"rdma"}, {"hostPath", "workdir"}  # infra.validation.jobs: `pulumi up` sends no folders
    assert settable(Settings) - full == alternatives | only_existing_clusters | rejected
