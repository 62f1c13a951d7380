#!/usr/bin/env bash
# Report what a Kubernetes node has and lacks, one line each. Fails if something is missing. Changes nothing.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
PATH=$PATH:/usr/sbin:/sbin # iptables is not on a user's PATH
missing=0

expect() { # WHAT FIX COMMAND...
  local what=$1 fix=$2
  shift 2
  if "$@" >/dev/null 2>&1; then
    echo "ok       $what"
  else
    echo "missing  $what: $fix"
    missing=1
  fi
}
# shellcheck disable=SC2329 # called by expect
is_set() { [[ $(cat "/proc/sys/${1//.//}") == 1 ]]; }
# shellcheck disable=SC2329 # called by expect
has_no_swap() { [[ ! $(tail --lines=+2 /proc/swaps) ]]; }
# shellcheck disable=SC2329
keeps_no_swap() { [[ $(systemctl is-enabled swap.target) == masked ]]; }
# shellcheck disable=SC2329
is_version() { [[ $("$@") == *"v$kubernetes_version" ]]; }
# shellcheck disable=SC2329
has_gpu() { # PCI vendor NVIDIA, class display or 3D controller
  local device
  for device in /sys/bus/pci/devices/*; do
    [[ $(cat "$device/vendor" 2>/dev/null) == 0x10de && $(cat "$device/class" 2>/dev/null) == 0x03* ]] && return 0
  done
  return 1
}
again="run prepare-kubernetes-node.sh"

# The kubelet does not start with cgroup v1: https://kubernetes.io/docs/concepts/architecture/cgroups/
expect "kernel: cgroup v2" "boot with systemd.unified_cgroup_hierarchy=1" test -e /sys/fs/cgroup/cgroup.controllers
expect "kernel: overlay" "$again" grep --word-regexp overlay /proc/filesystems
for setting in net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables net.ipv4.ip_forward; do
  expect "kernel: $setting = 1" "$again" is_set "$setting"
done
for folder in modules-load.d sysctl.d; do
  expect "kernel: settings persist across boots in $folder" "$again" test -e "/etc/$folder/50-gpumpi-kubernetes.conf"
done
expect "no swap" "$again" has_no_swap
expect "no swap after a boot" "$again" keeps_no_swap
expect "containerd runs" "$again, or see: journalctl --unit containerd" systemctl is-active containerd.service
expect "containerd: systemd cgroup driver" "$again" grep "SystemdCgroup = true" /etc/containerd/config.toml
expect "containerd: pause $pause_version" "$again" grep --fixed-strings "registry.k8s.io/pause:$pause_version\"" /etc/containerd/config.toml
for program in conntrack ethtool iptables mount.nfs socat kubectl; do
  expect "$program" "$again" which "$program"
done
expect "kubelet $kubernetes_version" "$again" is_version kubelet --version
expect "kubeadm $kubernetes_version" "$again" is_version kubeadm version --output short
expect "the kubelet starts at boot" "$again" systemctl is-enabled kubelet.service
for plugin in bridge portmap; do
  expect "network plugin /opt/cni/bin/$plugin" "$again" test -e "/opt/cni/bin/$plugin"
done
if has_gpu; then
  expect "NVIDIA's driver" "$again, then reboot" nvidia-smi
  expect "containerd: NVIDIA's runtime is the default" "$again" grep 'default_runtime_name = "nvidia"' /etc/containerd/config.toml
else
  echo "none     NVIDIA GPU: this is a CPU node"
fi
exit $missing
