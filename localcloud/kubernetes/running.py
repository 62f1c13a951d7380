"""Interface that the parts use to access a running cluster."""

import socket
from pathlib import Path
from typing import Protocol, TypeVar

from localcloud.control import Control
from localcloud.kubernetes.addresses import Addresses
from localcloud.kubernetes.client import Api
from localcloud.kubernetes.pki import Authority, Certificate
from localcloud.machine.ledger import Ledger
from localcloud.machine.supervisor import Supervisor

P = TypeVar("P")


class RunningCluster(Protocol):
    """Members of `Cluster` that the control plane, DNS and parts use. The modules of the parts cannot import cluster.py, because
    cluster.py imports them."""

    id: str
    name: str
    region: str
    account: str
    issuer: str
    folder: Path
    namespace: str | None
    addresses: Addresses
    ledger: Ledger
    supervisor: Supervisor
    pki: Authority
    api: Api
    admin_kubeconfig: Path
    control: Control
    """Part of the control API that the cluster's daemons may use. Nodes and pods cannot reach it."""

    @property
    def aws_url(self) -> str: ...

    @property
    def restart_marker_file(self) -> Path: ...

    def publish(self) -> None: ...

    def listen(self, address: str, port: int) -> socket.socket: ...

    def write_kubeconfig(self, certificate: Certificate, file: str) -> Path: ...

    def get_part(self, kind: type[P]) -> P: ...
