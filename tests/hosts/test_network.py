"""The network of a VPC with hosts."""

import os
import subprocess
import sys
from ipaddress import IPv4Interface
from pathlib import Path

from localcloud.machine import network
from localcloud.processes import ROOT


def test_the_network_bridge_keeps_its_mac_address_when_hosts_join_and_leave(skip_if_unsupported: None) -> None:
    """If the bridge's MAC address changed, hosts could not reach the local AWS until their ARP entries expired."""
    name = f"gpumpi-test-{os.getpid()}"
    addresses: list[str] = []

    def join_and_leave() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            bridge = route.link_lookup(ifname=network.BRIDGE)[0]

            def record_address() -> None:
                addresses.append(route.get_links(bridge)[0].get("address"))

            record_address()
            peer = {"ifname": "peer", "address": "02:00:00:00:00:02"}
            route.link("add", ifname="link", kind="veth", address="02:00:00:00:00:01", peer=peer)
            (link,) = route.link_lookup(ifname="link")
            route.link("set", index=link, master=bridge, state="up")
            record_address()
            route.link("del", index=link)
            record_address()

    network.create_namespace(name)
    try:
        network.make_bridge(name, [IPv4Interface("10.0.0.1/24")])
        network.run_in_namespace(name, join_and_leave)
    finally:
        network.remove_namespace(name)
    assert len(set(addresses)) == 1 and not (network.RUN / name).exists()


AFTER_IP_NETNS_ADD = """
from pathlib import Path
from localcloud.machine import network
from localcloud.machine.ledger import Ledger

MS_SHARED = 1 << 20
run = str(network.RUN).encode()
network._call_libc("mount", b"none", b"/run", b"tmpfs", 0, None)  # seen by this process only
ledger = Ledger(Path("/run/ledger"))
for name in ("ours-before-1", "ours-before-2"):
    ledger.add("namespace", name)
    network.create_namespace(name)
network._call_libc("mount", run, run, b"none", network.MS_BIND | network.MS_REC, None)  # as the first `ip netns add` does
network._call_libc("mount", b"none", run, None, MS_SHARED | network.MS_REC, None)
network.create_namespace("of-another-program")
network.remove_namespace("ours-before-1")
network.unmount(network.build_namespace_path("ours-before-2"))  # what a stop that failed here left behind
ledger.clean_up()
assert [path.name for path in network.RUN.iterdir()] == ["of-another-program"]
assert "ours-before" not in Path("/proc/self/mountinfo").read_text()
network.run_in_namespace("of-another-program", lambda: None)
"""


def test_network_namespaces_are_removed_even_if_another_program_used_ip_netns_add(
    skip_if_unsupported: None, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(AFTER_IP_NETNS_ADD)
    command = ["unshare", "--mount", "--propagation=private", sys.executable, script]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
