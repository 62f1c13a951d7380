"""The part that enforces network policies while the EKS add-on vpc-cni enables them."""

import logging
import sys
from collections.abc import Mapping
from typing import Any

import yaml

from localcloud.aws.events import Event
from localcloud.kubernetes.network_policy import nft
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster
from localcloud.processes import ROOT
from localcloud.tools import debian
from localcloud.tools.build import BuildError

log = logging.getLogger(__name__)

ADDON = "vpc-cni"
NAME = "network-policy-agent"
MODE = "NETWORK_POLICY_ENFORCING_MODE"
ENFORCED = "enforced"
NOT_ENABLED = (
    f"not enforced: the add-on {ADDON} does not set enableNetworkPolicy, so EKS would not enforce NetworkPolicies either"
)


class NetworkPolicies(Part):
    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._status = NOT_ENABLED

    @property
    def status(self) -> str:
        """Whether network policies are enforced, and the reason if they are not."""
        has_crashed = any(crash.name == NAME for crash in self.cluster.supervisor.list_crashes())
        return f"not enforced: {NAME} has ended" if has_crashed else self._status

    def on_event(self, event: Event) -> None:
        if event.kind != "add-on" or event.name != f"{self.cluster.name}/{ADDON}":
            return
        self._status = self._start_or_stop_agent(is_enabled(event.details), get_enforcing_mode(event.details))
        self.cluster.publish()

    def _start_or_stop_agent(self, enabled: bool, mode: str) -> str:
        """Start or stop the agent. Return the new status."""
        if not enabled:
            self.cluster.supervisor.stop(NAME)
            return NOT_ENABLED
        if self.cluster.namespace is None:
            return "not enforced: simulated nodes run no pods"
        if mode != "standard":
            self.cluster.supervisor.stop(NAME)
            return f"not enforced: only {MODE}=standard is emulated, not {mode}"
        if self.status == ENFORCED:
            return ENFORCED
        try:
            program = debian.ensure_package(debian.NFTABLES, log.info) / "nft"
        except BuildError as error:
            return f"not enforced: {error}"
        if reason := nft.find_obstacle(program):
            return f"not enforced: {reason}"
        addresses = self.cluster.addresses
        networks = ["--vpc", str(addresses.vpc), "--services", str(addresses.services)]
        where = ["--pki", str(self.cluster.pki.folder), "--namespace", self.cluster.namespace, *networks, "--nft", str(program)]
        command = [sys.executable, "-m", __package__ or "", *where]
        self.cluster.supervisor.start(NAME, command, environment={"PYTHONPATH": str(ROOT)})
        return ENFORCED


def is_enabled(addon: Mapping[str, Any]) -> bool:
    """https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html"""
    return _parse_configuration(addon).get("enableNetworkPolicy") == "true"


def get_enforcing_mode(addon: Mapping[str, Any]) -> str:
    """Return `standard`, in which new pods start without isolation, or `strict`."""
    environment = _parse_configuration(addon).get("env") or {}
    return str(environment.get(MODE, "standard"))


def _parse_configuration(addon: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the add-on's configuration, which may be JSON or YAML."""
    configuration: Mapping[str, Any] = yaml.safe_load(addon.get("configurationValues") or "") or {}
    return configuration
