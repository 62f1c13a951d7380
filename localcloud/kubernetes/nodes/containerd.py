"""containerd configuration of a node: https://github.com/containerd/containerd/blob/release/1.6/docs/cri/config.md"""

from pathlib import Path

SOCKET = "/run/containerd/containerd.sock"
ROOT = "/var/lib/containerd"
PAUSE_IMAGE = "registry.k8s.io/pause:3.10.1"
"""From kubeadm 1.35: https://github.com/kubernetes/kubernetes/blob/v1.35.0/cmd/kubeadm/app/constants/constants.go"""


def build_config(*, registries: Path, network_plugins: Path, runc: Path) -> str:
    """Return the configuration for containerd 1.6 and later. containerd 2 converts it to its own format."""
    return f"""\
version = 2
root = "{ROOT}"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  # In a virtual machine or container, root may lack CAP_SYS_RESOURCE, which lowering oom_score_adj needs.
  restrict_oom_score_adj = true
  max_concurrent_downloads = 8

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{registries}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{network_plugins}"
    conf_dir = "/etc/cni/net.d"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
"""


def write_registries(folder: Path, url: str) -> None:
    """Make containerd pull all images from the registry at `url`, regardless of the registry in the image name.

    https://github.com/containerd/containerd/blob/main/docs/hosts.md
    """
    default = folder / "_default"
    default.mkdir(parents=True)
    (default / "hosts.toml").write_text(f'server = "{url}"\n\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n')
