#!/usr/bin/env bash
# Install and configure containerd for Kubernetes: systemd cgroup driver, the pinned pause image, and NVIDIA's runtime
# as default if it is installed, because the static device plugin expects it.
# https://kubernetes.io/docs/setup/production-environment/container-runtimes/#containerd-systemd
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
file=/etc/containerd/config.toml

# Keep an existing containerd: Docker's package contains containerd, and installing the distribution's containerd would remove it.
command -v containerd >/dev/null || "$here/install-packages.sh" containerd runc
if [[ -e $file && ! -e $file.before-gpumpi ]] && ! grep --quiet '^# Written by gpumpi' "$file"; then
  cp --archive "$file" "$file.before-gpumpi"
fi
default=runc
[[ -x /usr/bin/nvidia-container-runtime ]] && default=nvidia

runtime() { # NAME PROGRAM
  cat <<END

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.$1]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.$1.options]
        BinaryName = "$2"
        SystemdCgroup = true
END
}

changed=$({
  # containerd 1.6 and 1.7 read version 2, and containerd 2 migrates it
  cat <<END
# Written by gpumpi; the previous file is config.toml.before-gpumpi.
version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:$pause_version"

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "$default"
END
  runtime runc "$(command -v runc)"
  [[ $default == runc ]] || runtime nvidia /usr/bin/nvidia-container-runtime
} | "$here/put-file.sh" "$file")

[[ -d /run/systemd/system ]] || exit 0
systemctl enable --quiet containerd.service
if [[ $changed ]] || ! systemctl is-active --quiet containerd.service; then
  systemctl restart containerd.service || {
    echo "containerd does not start. Find the reason with: journalctl --unit containerd --lines 20" >&2
    exit 1
  }
fi
