"""Paths of the programs that a node runs."""

import os
from dataclasses import dataclass
from pathlib import Path

from localcloud.tools import debian
from localcloud.tools.build import Report, ensure_tool
from localcloud.tools.catalogue import KUBE_PROXY, KUBELET


@dataclass(frozen=True)
class Programs:
    """Paths of a node's programs on this machine."""

    kubelet: Path
    kube_proxy: Path
    containerd: Path
    runc: Path
    network_plugins: Path
    """Folder of the CNI plugins."""
    tables: Path
    """Folder that contains iptables, which kube-proxy and the portmap plugin run."""
    conntrack: Path
    """Folder that contains conntrack, which kube-proxy runs."""

    @classmethod
    def ensure(cls, report: Report) -> "Programs":
        """Build or fetch missing programs and return all paths."""
        return cls(
            kubelet=ensure_tool(KUBELET, report),
            kube_proxy=ensure_tool(KUBE_PROXY, report),
            containerd=debian.ensure_package(debian.CONTAINERD, report) / "containerd",
            runc=debian.ensure_package(debian.RUNC, report) / "runc",
            network_plugins=debian.ensure_package(debian.CNI_PLUGINS, report),
            tables=debian.ensure_package(debian.IPTABLES, report),
            conntrack=debian.ensure_package(debian.CONNTRACK, report),
        )

    @property
    def search_path(self) -> str:
        """Value of PATH for the node's daemons, with their helper programs first."""
        own = (self.containerd.parent, self.runc.parent, self.tables, self.conntrack)
        present = os.environ.get("PATH", os.defpath).split(os.pathsep)
        return os.pathsep.join(dict.fromkeys([*map(str, own), *present, *debian.SYSTEM_FOLDERS]))

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of the programs, and of the files to which their symlinks point. All of these folders must be
        visible on the node."""
        files = (self.kubelet, self.kube_proxy, self.containerd, self.runc)
        folders = [file.parent for file in files] + [file.resolve().parent for file in files]
        folders += [self.network_plugins, self.network_plugins.resolve(), self.tables, self.conntrack]
        return tuple(dict.fromkeys(folders))
