#!/usr/bin/env bash
# Configure the kernel for Kubernetes: overlay, bridge netfilter, IP forwarding, no swap. Applies now and at every boot.
# https://kubernetes.io/docs/setup/production-environment/container-runtimes/#install-and-configure-prerequisites
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" kmod procps
printf '%s\n' overlay br_netfilter | "$here/put-file.sh" /etc/modules-load.d/50-gpumpi-kubernetes.conf
"$here/put-file.sh" /etc/sysctl.d/50-gpumpi-kubernetes.conf <<'END'
net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
net.ipv4.ip_forward = 1
END

# Comment out swap in /etc/fstab, otherwise it returns at the next boot. Masking swap.target covers swap that is not in fstab.
is_swap='^[^#]\S*\s+\S+\s+swap(\s|$)'
if grep --quiet --extended-regexp "$is_swap" /etc/fstab 2>/dev/null; then
  sed --in-place --regexp-extended "/$is_swap/s/^/# gpumpi, no swap on nodes of Kubernetes: /" /etc/fstab
fi
systemctl mask --quiet swap.target

[[ -d /run/systemd/system ]] || exit 0 # building an image: the rest needs a running machine
has() { # a kernel module, loaded or built in
  case $1 in
    overlay) grep --quiet --word-regexp overlay /proc/filesystems ;;
    br_netfilter) [[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ]] ;;
  esac
}
for module in overlay br_netfilter; do
  has "$module" || modprobe "$module" || {
    echo "kernel $(uname --kernel-release) has no $module. Install the distribution's full kernel (linux-image-amd64, linux-generic)" >&2
    exit 1
  }
done
sysctl --quiet --load=/etc/sysctl.d/50-gpumpi-kubernetes.conf
if [[ $(tail --lines=+2 /proc/swaps) ]]; then
  swapoff --all || {
    echo "swap cannot be disabled: $(tail --lines=+2 /proc/swaps | cut --delimiter=' ' --fields=1 | paste --serial --delimiters=' ') hold more than fits in memory. Stop programs or reboot" >&2
    exit 1
  }
fi
