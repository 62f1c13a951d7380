"""The egress proxy of local hosts reaches public addresses and package registries only."""

import socket
from types import SimpleNamespace

import psutil
import pytest

from localcloud.hosts import package_registries
from localcloud.hosts.proxy import Forbidden, Proxy, resolve_destination


@pytest.mark.parametrize(
    "host",
    [
        "10.1.2.3",
        "172.31.255.1",
        "192.168.1.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:192.168.1.1",
        "::ffff:127.0.0.1",
        "0x7f.1",
        "3232235777",
    ],
)
def test_the_proxy_connects_to_no_private_address(host: str) -> None:
    with pytest.raises(Forbidden):
        resolve_destination(host, 443, frozenset())


def test_the_proxy_connects_to_public_addresses_and_to_registries_in_a_private_network() -> None:
    assert resolve_destination("203.0.113.7", 443, frozenset()) == ("203.0.113.7", 443)
    assert resolve_destination("10.1.2.3", 80, {"10.1.2.3"}) == ("10.1.2.3", 80)
    with pytest.raises(Forbidden):
        resolve_destination("127.0.0.1", 80, {"127.0.0.1"})


def test_the_proxy_does_not_connect_to_this_machine_at_a_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    own = SimpleNamespace(address="203.0.113.7")
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": [own]})
    with pytest.raises(Forbidden):
        resolve_destination("203.0.113.7", 22, frozenset())


@pytest.mark.parametrize("request_line", ["CONNECT 192.168.1.1:443 HTTP/1.1", "GET http://192.168.1.1/ HTTP/1.1"])
def test_a_request_for_a_private_address_is_answered_with_403(request_line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_registries, "list_registry_hosts", frozenset)
    proxy = Proxy(socket.create_server(("127.0.0.1", 0)))
    try:
        with socket.create_connection(proxy.server_address[:2], timeout=10) as connection:
            connection.sendall(f"{request_line}\r\n\r\n".encode())
            assert b" 403 the proxy connects only to public addresses" in connection.recv(1024)
    finally:
        proxy.close()
