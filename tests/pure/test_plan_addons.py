"""Versions of EKS add-ons: from the stack file, or else the installed version, or else AWS's default."""

from typing import Any

import pytest

from infra import validation
from infra.facts.model import AddonVersions, Existing
from infra.naming import ADDONS, COREDNS, EFS_CSI_DRIVER, FSX_CSI_DRIVER, KUBE_PROXY
from infra.plan.eks_versions import choose_versions
from tests.pure.world import ADDON_VERSIONS, TODAY, account_facts, settings

OLDER, DEFAULT, NEWER = "v1.35.1-eksbuild.1", "v1.35.2-eksbuild.1", "v1.35.3-eksbuild.1"


def choose_version(name: str = COREDNS, *, installed: str | None = None, sections: Any = None, **changed: Any) -> str | None:
    stack = settings(**(sections or {}))
    existing = Existing("1.35", addon_versions={name: installed}) if installed else Existing()
    return choose_versions(stack, account_facts(stack, **{"existing": existing, **changed}))[name]


def test_new_cluster_gets_the_default_addon_version_of_aws() -> None:
    assert choose_version() == DEFAULT


@pytest.mark.parametrize("installed", [OLDER, NEWER])
def test_installed_version_stays_even_if_the_default_differs(installed: str) -> None:
    assert choose_version(installed=installed) == installed


@pytest.mark.parametrize("installed", [None, NEWER])
def test_addon_version_in_the_stack_file_wins(installed: str | None) -> None:
    assert choose_version(installed=installed, sections={"target": {"addonVersions": {COREDNS: OLDER}}}) == OLDER


def test_upgrade_replaces_addon_version_unsupported_by_the_new_kubernetes() -> None:
    assert choose_version(installed="v1.12.4-eksbuild.29") == DEFAULT


def test_upgrade_moves_kube_proxy_even_if_aws_still_offers_the_older_version() -> None:
    older = "v1.34.6-eksbuild.29"
    versions = {**ADDON_VERSIONS, KUBE_PROXY: AddonVersions(frozenset({older, DEFAULT}), DEFAULT)}
    assert choose_version(KUBE_PROXY, installed=older, addon_versions=versions) == DEFAULT
    assert choose_version(KUBE_PROXY, installed=NEWER) == NEWER


@pytest.mark.parametrize(("installed", "version"), [(None, None), (OLDER, OLDER)])
def test_unreadable_addon_versions_leave_the_choice_to_aws(installed: str | None, version: str | None) -> None:
    assert choose_version(installed=installed, addon_versions={}) == version


@pytest.mark.parametrize(
    ("storage", "missing"),
    [
        ({}, {FSX_CSI_DRIVER}),
        ({"fsx": {}}, set()),
        ({"efs": "none"}, {EFS_CSI_DRIVER, FSX_CSI_DRIVER}),
    ],
)
def test_csi_drivers_are_installed_only_for_file_systems_of_the_stack(storage: dict[str, Any], missing: set[str]) -> None:
    stack = settings(storage=storage)
    assert choose_versions(stack, account_facts(stack)).keys() == set(ADDONS) - missing


def test_unneeded_addon_missing_from_aws_is_no_problem() -> None:
    stack = settings()
    versions = {name: versions for name, versions in ADDON_VERSIONS.items() if name != FSX_CSI_DRIVER}
    assert validation.run_rules(stack, account_facts(stack, addon_versions=versions), TODAY) == []
