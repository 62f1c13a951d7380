"""nftables rules of one node, which limit isolated pods to the connections that policies allow. Performs no I/O.

https://wiki.nftables.org/wiki-nftables/index.php/Main_Page

The rules apply only to forwarded packets, so the node always reaches its own pods. Packets to or from an isolated pod
jump to a chain for their direction. The chain returns if a policy allows the packet, and drops the packet otherwise.
Pods with the same isolation share chains.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from localcloud.kubernetes.network_policy.resolve import Allow, Isolation, Ports

TABLE = "ip network-policy"
_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


def render_removal() -> str:
    """Return the commands that remove the table, whether or not it exists."""
    return f"add table {TABLE}\ndelete table {TABLE}\n"


def render_rules(isolations: Mapping[str, Isolation]) -> str:
    """Return the commands that replace a node's table with rules for these isolated pods, keyed by pod address. nft
    runs all commands in one transaction."""
    pods = sorted(isolations.items(), key=lambda entry: IPv4Address(entry[0]))
    egress = {address: isolation.egress for address, isolation in pods if isolation.egress is not None}
    ingress = {address: isolation.ingress for address, isolation in pods if isolation.ingress is not None}
    if not egress and not ingress:
        return render_removal()
    leaving, arriving = _Chains("egress", "ct original ip daddr", egress), _Chains("ingress", "ip saddr", ingress)
    text = "\n".join([*leaving.text(), *arriving.text(), *_render_forward_chain(list(ingress))])
    return f"{render_removal()}table {TABLE} {{\n{text}\n}}\n"


def _render_forward_chain(isolated: list[str]) -> list[str]:
    own = [f"ip saddr . ip daddr {{ {', '.join(f'{address} . {address}' for address in isolated)} }} accept"] if isolated else []
    rules = [
        "type filter hook forward priority filter - 10; policy accept;",
        "ct state related accept",
        "ct direction reply accept",
        "ip saddr vmap @egress",
        *own,  # let a pod connect to itself through a service
        "ip daddr vmap @ingress",
    ]
    return _render_block("chain forward", rules)


class _Chains:
    """The map and the chains of one direction."""

    def __init__(self, direction: str, peer: str, allowed: Mapping[str, frozenset[Allow]]) -> None:
        self._direction, self._peer, self._allowed = direction, peer, allowed
        distinct = list(dict.fromkeys(allowed.values()))
        self._names = {allows: f"{direction}-{number}" for number, allows in enumerate(distinct)}

    def text(self) -> list[str]:
        chains = [
            line
            for allows, name in self._names.items()
            for line in _render_block(f"chain {name}", [*self._render_rules(allows), "drop"])
        ]
        jumps = ", ".join(f"{address} : jump {self._names[allows]}" for address, allows in self._allowed.items())
        elements = [f"elements = {{ {jumps} }}"] if jumps else []
        return [*chains, *_render_block(f"map {self._direction}", ["type ipv4_addr : verdict", *elements])]

    def _render_rules(self, allowed: Iterable[Allow]) -> Iterator[str]:
        plain: dict[Ports | None, list[IPv4Network]] = defaultdict(list)
        for allow in sorted(allowed, key=_build_sort_key):
            if allow.excluded:
                network, port_match = self._render_address_match([allow.network]), self._render_port_match(allow.ports)
                yield f"{network} {self._peer} != {_render_set(allow.excluded)}{port_match} return"
            else:
                plain[allow.ports].append(IPv4Network(allow.network, strict=False))
        for ports, networks in plain.items():
            yield f"{self._render_address_match(map(str, collapse_addresses(networks)))}{self._render_port_match(ports)} return"

    def _render_address_match(self, networks: Iterable[str]) -> str:
        return f"{self._peer} {_render_set(networks)}"

    def _render_port_match(self, ports: Ports | None) -> str:
        if ports is None:
            return ""
        protocol = _PROTOCOLS[ports.protocol]
        if ports == Ports(ports.protocol):
            return f" meta l4proto {protocol}"
        number = "ct original proto-dst" if self._direction == "egress" else "th dport"
        return f" meta l4proto {protocol} {number} {ports.first}-{ports.last}"


def _build_sort_key(allow: Allow) -> tuple[str, tuple[str, ...], str, int, int]:
    ports = allow.ports or Ports("", 0, 0)
    return allow.network, allow.excluded, ports.protocol, ports.first, ports.last


def _render_set(networks: Iterable[str]) -> str:
    collapsed = collapse_addresses(IPv4Network(cidr, strict=False) for cidr in networks)
    return f"{{ {', '.join(map(str, collapsed))} }}"


def _render_block(title: str, lines: Iterable[str]) -> list[str]:
    return [f"  {title} {{", *(f"    {line}" for line in lines), "  }"]
