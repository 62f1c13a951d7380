#!/usr/bin/env bash
# Prepare this machine for `kubeadm init` or `kubeadm join`, then validate it. Running it again changes nothing.
#   prepare-kubernetes-node.sh [--check]     --check only reports what is ready and what is missing
#   KUBERNETES_FOLDER   as for install-kubernetes.sh
#   SKIP                as for run-provisioners.sh: {"install-nvidia-driver": "we install our own"}
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

case ${1:-} in
  --check) exec "$here/validate-kubernetes-node.sh" ;;
  "") ;;
  *) echo "prepare-kubernetes-node.sh: unknown option \"$1\". Use --check or no option" >&2 && exit 2 ;;
esac
# shellcheck source=/dev/null
source /etc/os-release
case $ID in
  debian | ubuntu) ;;
  *) echo "$PRETTY_NAME is not supported. Use Debian or Ubuntu" >&2 && exit 2 ;;
esac
if [[ $(id --user) != 0 ]]; then
  echo "preparing a node needs root. Run it with sudo" >&2
  exit 2
fi
if [[ -e /etc/kubernetes/kubelet.conf ]]; then
  echo "this machine is already a cluster node (/etc/kubernetes/kubelet.conf). Validate it with --check; change it with kubeadm" >&2
  exit 2
fi

steps=(configure-kernel configure-limits)
for vendor in /sys/bus/pci/devices/*/vendor; do
  if [[ $(cat "$vendor" 2>/dev/null) == 0x10de && $(cat "${vendor%vendor}class") == 0x03* ]]; then
    steps+=(install-nvidia-driver install-container-toolkit)
    break
  fi
done
steps+=(install-containerd install-kubernetes)
"$here/run-provisioners.sh" "${steps[@]/%/.sh}"
exec "$here/validate-kubernetes-node.sh"
