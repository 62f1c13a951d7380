"""No listening socket of a local cloud with a cluster serves web pages, or programs without its secrets."""

import pytest

from testkit import sockets, strangers
from testkit.eks_clusters import Running
from testkit.node_groups import create_node_group

pytestmark = pytest.mark.xdist_group("kubernetes")


def test_every_socket_refuses_web_pages_and_unauthenticated_writes(cluster: Running) -> None:
    with create_node_group(cluster, "listening", 1, "m7i.large"):
        listening = sockets.find_listening_sockets(cluster.cloud)
        programs = {listener.program for listener in listening}
        assert {"etcd", "kube-apiserver", "kubelet", "containerd", "coredns"} <= programs
        assert {4566, 4567, 5000} <= {listener.port for listener in listening}, (
            "the local AWS, control API and registry in the VPC"
        )
        assert strangers.list_accepted_requests(listening) == []
