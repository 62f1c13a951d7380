"""Versions of EKS add-ons: from the stack file, else the installed version, else AWS's default."""

from typing import Any

import pytest

from infra import validation
from infra.facts.model import AddonVersions, Existing
from infra.naming import ADDONS, COREDNS, EFS_CSI_DRIVER, FSX_CSI_DRIVER, KUBE_PROXY
from infra.plan.eks_versions import choose_versions
from tests.pure.world import ADDON_VERSIONS, TODAY, facts, settings

OLDER, DEFAULT, NEWER = "v1.35.1-eksbuild.1", "v1.35.2-eksbuild.1", "v1.35.3-eksbuild.1"


def choose(name: str = COREDNS, *, installed: str | None = None, sections: Any = None, **changed: Any) -> str | None:
    stack = settings(**(sections or {}))
    existing = Existing("1.35", addon_versions={name: installed}) if installed else Existing()
    return choose_versions(stack, facts(stack, **{"existing": existing, **changed}))[name]


def test_new_cluster_gets_the_default_of_aws() -> None:
    assert choose() == DEFAULT


@pytest.mark.parametrize("installed", [OLDER, NEWER])
def test_installed_version_stays_although_the_default_is_another(installed: str) -> None:
    assert choose(installed=installed) == installed


@pytest.mark.parametrize("installed", [None, NEWER])
def test_version_in_the_stack_file_wins(installed: str | None) -> None:
    assert choose(installed=installed, sections={"target": {"addonVersions": {COREDNS: OLDER}}}) == OLDER


def test_upgrade_moves_an_addon_that_the_new_kubernetes_version_does_not_support() -> None:
    assert choose(installed="v1.12.4-eksbuild.29") == DEFAULT


def test_upgrade_moves_kube_proxy_although_aws_offers_the_older_version() -> None:
    older = "v1.34.6-eksbuild.29"
    versions = {**ADDON_VERSIONS, KUBE_PROXY: AddonVersions(frozenset({older, DEFAULT}), DEFAULT)}
    assert choose(KUBE_PROXY, installed=older, addon_versions=versions) == DEFAULT
    assert choose(KUBE_PROXY, installed=NEWER) == NEWER


@pytest.mark.parametrize(("installed", "version"), [(None, None), (OLDER, OLDER)])
def test_versions_that_could_not_be_read_leave_the_choice_to_aws(installed: str | None, version: str | None) -> None:
    assert choose(installed=installed, addon_versions={}) == version


@pytest.mark.parametrize(
    ("storage", "missing"),
    [
        ({}, {FSX_CSI_DRIVER}),
        ({"fsx": {}}, set()),
        ({"efs": "none"}, {EFS_CSI_DRIVER, FSX_CSI_DRIVER}),
    ],
)
def test_drivers_are_installed_only_for_file_systems_of_the_stack(storage: dict[str, Any], missing: set[str]) -> None:
    stack = settings(storage=storage)
    assert choose_versions(stack, facts(stack)).keys() == set(ADDONS) - missing


def test_addon_that_aws_lacks_and_the_stack_does_not_need_is_no_problem() -> None:
    stack = settings()
    versions = {name: versions for name, versions in ADDON_VERSIONS.items() if name != FSX_CSI_DRIVER}
    assert validation.check(stack, facts(stack, addon_versions=versions), TODAY) == []
