"""Complete stack files: faulty files with their expected messages, and the smallest and largest valid files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra import preflight
from infra.config import stack_file
from infra.config.problems import SettingsError
from infra.facts.model import AddonVersions, CapacityReservation, Facts
from infra.preflight import examine_aws_stack
from infra.settings.stack import Settings
from tests.pure.world import ACCOUNT, ADDON_VERSIONS, account_facts

CONFIGS = Path(__file__).parents[1] / "configs"
ERRORS = sorted(CONFIGS.glob("error.*.yaml"))
STACKS = [
    path for path in sorted((CONFIGS.parents[1] / "stacks").glob("Pulumi.*.yaml")) if "kind: existing" not in path.read_text()
]


def make_complete_facts(settings: Settings) -> Facts:
    """Return the facts of an account in which every resource that the stack refers to exists."""
    by_id = {pool.reservation_id: pool for pool in settings.pools if pool.reservation_id}
    reservations = {
        reservation_id: CapacityReservation(
            reservation_id,
            "capacity-block" if pool.capacity.kind == "capacity-block" else "default",
            "active",
            pool.instance_type,
            "us-west-2c",
            16,
            16,
        )
        for reservation_id, pool in by_id.items()
    }
    overrides = settings.eks.addon_versions if settings.is_eks else {}
    permission_sets = [user.permission_set for user in settings.eks.users if user.permission_set] if settings.is_eks else []
    return account_facts(
        settings,
        addon_versions={
            **ADDON_VERSIONS,
            **{name: AddonVersions(frozenset({version}), None) for name, version in overrides.items()},
        },
        reservations=reservations,
        permission_sets={name: (f"arn:aws:iam::{ACCOUNT}:role/{name}",) for name in permission_sets},
        images={pool.ami_id: "x86_64" for pool in settings.pools if pool.ami_id},
        placement_groups={name: "cluster" for pool in settings.pools if (name := pool.own_placement_group)},
    )


@pytest.fixture(autouse=True)
def fake_aws_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "gather_facts", make_complete_facts)


def read_stack(path: Path) -> stack_file.RawStack:
    return replace(stack_file.read_stack_file(path), stack="test")


def test_error_config_files_exist() -> None:
    assert len(ERRORS) >= 10


@pytest.mark.parametrize("path", ERRORS, ids=lambda path: path.stem)
def test_invalid_file_produces_its_expected_error_text(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    problems = examine_aws_stack(read_stack(path)).problems
    assert "".join(f"{problem}\n" for problem in problems) == expected


@pytest.mark.parametrize("path", ERRORS, ids=lambda path: path.stem)
def test_pulumi_program_reports_the_same_error_text(path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        _ = examine_aws_stack(read_stack(path)).settings_and_facts
    assert f"{caught.value}\n" == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["minimal", "full", "full-ec2"])
def test_minimal_and_full_configs_are_valid(name: str) -> None:
    settings, _ = examine_aws_stack(read_stack(CONFIGS / f"Pulumi.{name}.yaml")).settings_and_facts
    assert settings.region == "us-west-2"


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_every_stack_file_of_the_repository_is_valid_offline(path: Path) -> None:
    examined = examine_aws_stack(stack_file.read_stack_file(path), offline=True)
    assert examined.problems == ()
    assert examined.not_queried == "only the file was checked"


def test_full_config_files_cover_every_setting() -> None:
    def list_settable_fields(model: Any) -> set[str]:
        from pydantic import BaseModel

        from infra.config.models import list_leaf_types

        aliases = set()
        for field in model.model_fields.values():
            if field.exclude:
                continue
            aliases.add(field.alias)
            for leaf in list_leaf_types(field.annotation):
                for inner in (leaf, *getattr(leaf, "__args__", ())):
                    for leaf_type in list_leaf_types(inner):
                        if isinstance(leaf_type, type) and issubclass(leaf_type, BaseModel):
                            aliases |= list_settable_fields(leaf_type)
        return aliases

    def list_used_keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(list_used_keys, value.values()))
        return set().union(*map(list_used_keys, value)) if isinstance(value, list) else set()

    full = list_used_keys(read_stack(CONFIGS / "Pulumi.full.yaml").values) | list_used_keys(
        read_stack(CONFIGS / "Pulumi.full-ec2.yaml").values
    )
    alternatives = {"vpcId", "subnetIds", "fileSystemId", "addIngressRule", "imageRepository", "file"}
    # infra.validation.jobs: `pulumi up` does not send folders
    only_existing_clusters, rejected = {"rdma"}, {"hostPath", "workdir"}
    assert list_settable_fields(Settings) - full == alternatives | only_existing_clusters | rejected
