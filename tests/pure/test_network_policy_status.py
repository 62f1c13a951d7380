"""Conditions under which network policies are enforced, and the status if they are not."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli.local import local_commands
from localcloud.aws.events import Event
from localcloud.kubernetes.network_policy import nft, part
from localcloud.kubernetes.state import ClusterState
from localcloud.machine import network
from localcloud.machine.supervisor import Crash
from localcloud.tools import debian
from localcloud.tools.build import BuildError


@pytest.mark.parametrize(
    ("values", "enabled", "mode"),
    [
        (None, False, "standard"),
        ('{"env": {"WARM_IP_TARGET": "4"}}', False, "standard"),
        ('{"enableNetworkPolicy": "false"}', False, "standard"),
        ('enableNetworkPolicy: "true"', True, "standard"),
        ('{"enableNetworkPolicy": "true", "env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}', True, "strict"),
    ],
)
def test_only_the_vpc_cni_setting_enables_enforcement(values: str | None, enabled: bool, mode: str) -> None:
    addon = {"configurationValues": values} if values is not None else {}
    assert (part.is_enabled(addon), part.get_enforcing_mode(addon)) == (enabled, mode)


@dataclass
class Cluster:
    """Fake cluster with the attributes that the network policy component needs."""

    name: str = "demo"
    namespace: str | None = "gpumpi-0-1"
    published: list[str] = field(default_factory=list)
    ended: tuple[Crash, ...] = ()

    @property
    def supervisor(self) -> "Cluster":
        return self

    def list_crashes(self) -> tuple[Crash, ...]:
        return self.ended

    def publish(self) -> None:
        self.published.append("published")

    def start(self, name: str, *_: Any, **__: Any) -> None:
        raise AssertionError(f"{name} must not start")

    def stop(self, name: str) -> None:
        self.published.append(f"stopped {name}")


def read_status(cluster: Any, **details: Any) -> str:
    policies = part.NetworkPolicies(cluster)
    policies.on_event(Event("add-on", "created", "demo/vpc-cni", "us-west-2", "123456789012", details))
    return policies.status


ENABLED = '{"enableNetworkPolicy": "true"}'


def test_status_gives_the_reason_why_policies_are_not_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_missing_nft(*_: object) -> None:
        raise BuildError("nft: not found on PATH")

    strict = '{"enableNetworkPolicy": "true", "env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}'
    assert read_status(Cluster()) == part.NOT_ENABLED
    assert read_status(Cluster(namespace=None), configurationValues=ENABLED) == "not enforced: simulated nodes run no pods"
    not_standard = "not enforced: only NETWORK_POLICY_ENFORCING_MODE=standard is emulated, not strict"
    assert read_status(Cluster(), configurationValues=strict) == not_standard
    monkeypatch.setattr(debian, "ensure_package", raise_missing_nft)
    cluster = Cluster()
    assert read_status(cluster, configurationValues=ENABLED) == "not enforced: nft: not found on PATH"
    assert cluster.published == ["published"]


def test_policies_are_not_enforced_after_the_agent_ended() -> None:
    cluster: Any = Cluster(ended=(Crash("coredns", 1, "/log", ""),))
    policies = part.NetworkPolicies(cluster)
    policies._status = part.ENFORCED
    assert policies.status == part.ENFORCED
    cluster.ended = (Crash(part.NAME, 1, "/log", "last words"),)
    assert policies.status == "not enforced: network-policy-agent has ended"


def test_a_kernel_without_nftables_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nft"
    program.write_text("#!/bin/sh\necho 'Error: Could not process rule: No such file or directory' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(nft, "_IN_NEW_NAMESPACE", ("env",))
    monkeypatch.setattr(debian, "ensure_package", lambda *_: tmp_path)
    assert read_status(Cluster(), configurationValues=ENABLED) == (
        "not enforced: nftables does not work on this machine: Error: Could not process rule: No such file or directory"
    )


def test_local_status_shows_whether_policies_are_enforced(capsys: pytest.CaptureFixture[str]) -> None:
    local_commands._print_cluster_status(ClusterState("demo", "us-west-2", "ready", network_policies=part.NOT_ENABLED))
    assert capsys.readouterr().out.splitlines()[-1] == f"  network policies: {part.NOT_ENABLED}"


def test_rules_are_skipped_while_a_network_namespace_is_created_or_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(network, "RUN", tmp_path)
    (tmp_path / "node-1").touch()
    for name in ("node-1", "missing-node"):
        nft.apply_rules(Path("false"), name, "")
