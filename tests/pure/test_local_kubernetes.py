"""Parts of local Kubernetes that work without a running cluster: addresses, DNS names, ledger and certificates."""

import ssl
import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import psutil
import pytest
from cryptography import x509

from localcloud.kubernetes import capability, dns
from localcloud.kubernetes.addresses import LINK_LOCAL, Addresses
from localcloud.kubernetes.control_plane import ControlPlane
from localcloud.kubernetes.pki import Authority
from localcloud.kubernetes.running import RunningCluster
from localcloud.kubernetes.state import ClusterState, load_cluster_states
from localcloud.machine.ledger import Entry, Ledger, build_process_name
from localcloud.machine.supervisor import Crash

SERVICES = IPv4Network("172.20.0.0/16")


@pytest.mark.parametrize(
    ("vpc", "services", "pods"),
    [
        ("10.0.0.0/16", "172.20.0.0/16", "100.64.0.0/16"),
        ("100.64.0.0/20", "172.20.0.0/16", "100.80.0.0/16"),
        ("100.64.0.0/16", "100.80.0.0/16", "198.18.0.0/16"),
    ],
)
def test_pod_addresses_overlap_no_other_network(vpc: str, services: str, pods: str) -> None:
    plan = Addresses(IPv4Network(vpc), IPv4Network(services))
    assert plan.pods == IPv4Network(pods)
    networks = [plan.vpc, plan.services, plan.get_node_pod_cidr(1), plan.get_node_pod_cidr(255)]
    assert not any(network.overlaps(two) for network in networks for two in networks if network is not two)
    assert not any(address in network for address in LINK_LOCAL for network in networks)


def test_address_plan_matches_aws_and_eks_conventions() -> None:
    plan = Addresses(IPv4Network("10.3.0.0/20"), SERVICES)
    assert (plan.router, plan.kubernetes, plan.dns) == tuple(map(IPv4Address, ("10.3.0.1", "172.20.0.1", "172.20.0.10")))
    assert plan.api_server == "https://10.3.0.1:443"
    with pytest.raises(ValueError, match=r"at most 255 nodes with a pod CIDR \(got node number 256\)"):
        plan.get_node_pod_cidr(256)


def test_vpc_without_room_for_pod_addresses_is_refused_with_the_reason() -> None:
    plan = Addresses(IPv4Network("100.64.0.0/10"), IPv4Network("198.18.0.0/15"))
    with pytest.raises(ValueError, match=r"^no CIDR is free for pods: each of 100\.64.* overlaps the VPC 100\.64\.0\.0/10 or"):
        print(plan.pods)


@pytest.mark.parametrize(("region", "zone"), [("us-west-2", "us-west-2.compute.internal"), ("us-east-1", "ec2.internal")])
def test_private_dns_names_of_instances_resolve_in_the_domain_of_the_region(region: str, zone: str) -> None:
    assert f"template IN A {zone} {{" in dns.build_corefile("10.0.0.1", "172.20.0.10", "/file", region)


def test_ledger_drops_removed_entries_and_a_line_truncated_by_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    ledger = Ledger(file)
    ledger.add("namespace", "one")
    ledger.add("cgroup", tmp_path / "group")
    ledger.remove("namespace", "one")
    with file.open("a") as open_file:
        open_file.write('["+", "namesp')
    assert Ledger(file).list_entries() == [Entry("cgroup", str(tmp_path / "group"))]


def test_ledger_kills_a_process_tree_but_not_a_reused_pid(tmp_path: Path) -> None:
    sleeping = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0); input()"
    own, other = (
        subprocess.Popen([sys.executable, "-c", sleeping], stdin=subprocess.PIPE, start_new_session=True) for _ in range(2)
    )
    ledger = Ledger(tmp_path / "ledger")
    try:
        ledger.add("process", build_process_name(own.pid, psutil.Process(own.pid).create_time()))
        ledger.add("process", build_process_name(other.pid, psutil.Process(other.pid).create_time() - 5))
        ledger.clean_up()
        assert own.wait(10) < 0
        assert other.poll() is None, "another process that reuses the PID must keep running"
    finally:
        for process in (own, other):
            process.kill()
            process.communicate()
    assert ledger.list_entries() == []


def test_certificates_name_user_groups_and_addresses_and_keys_are_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    issued = authority.issue("system:node:a", organizations=("system:nodes",), names=("a",), addresses=("10.0.0.9",))
    certificate = x509.load_pem_x509_certificate(issued.file.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [IPv4Address("10.0.0.9")]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.file.read_bytes()))
    assert issued.key.stat().st_mode & 0o077 == 0
    assert tmp_path.joinpath("pki").stat().st_mode & 0o077 == 0
    ssl.create_default_context(cafile=authority.certificate.file).load_cert_chain(issued.file, issued.key)
    again = Authority(tmp_path / "pki").issue("later")
    issuer = x509.load_pem_x509_certificate(authority.certificate.file.read_bytes())
    x509.load_pem_x509_certificate(again.file.read_bytes()).verify_directly_issued_by(issuer)


def test_saved_cluster_states_are_loaded_oldest_first(tmp_path: Path) -> None:
    crash = Crash("etcd", -9, "/log", "its last words")
    states = [ClusterState(name, "us-west-2", "failed", problem="why", crashes=[crash]) for name in ("b", "a")]
    for number, state in zip((2, 10), states, strict=True):
        (tmp_path / f"{number}-{state.name}").mkdir()
        state.save(tmp_path / f"{number}-{state.name}")
    assert load_cluster_states(tmp_path) == states
    assert not states[0].is_healthy
    assert str(crash) == "etcd was ended by SIGKILL; the end of /log:\nits last words"


def test_error_explains_why_real_nodes_are_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert str(capability.check_machine()) == (
        "this machine can run Kubernetes only with simulated nodes, which cannot run jobs: real nodes need Linux; this is darwin"
    )
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "real nodes need root" in str(capability.check_machine())


def test_restart_establishes_crds_whose_names_were_just_accepted() -> None:
    """A restarted API server takes five minutes to establish such CRDs. On EKS, a second API server does so without
    delay.
    """

    def make_definition(name: str, accepted: str, established: str) -> dict[str, Any]:
        conditions = [{"type": "NamesAccepted", "status": accepted}, {"type": "Established", "status": established}]
        return {"metadata": {"name": name}, "status": {"conditions": conditions}}

    items = [make_definition("a", "True", "True"), make_definition("b", "True", "False"), make_definition("c", "False", "False")]
    api = SimpleNamespace(get=lambda path: {"items": items}, patch=Mock())
    ControlPlane(cast(RunningCluster, SimpleNamespace(api=api, namespace="ns")))._mark_crds_established()
    ((path, body),) = [call.args for call in api.patch.call_args_list]
    assert path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/b/status"
    assert {condition["type"]: condition["status"] for condition in body["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
