#!/usr/bin/env bash
# Makes this machine ready for `kubeadm init` or `kubeadm join`, and tells whether it is; running it again changes nothing.
#   prepare-kubernetes-node.sh [--check]     --check only tells what is there and what is missing
#   KUBERNETES_FOLDER   as for install-kubernetes.sh
#   SKIP                as for run-provisioners.sh: {"install-nvidia-driver": "ours is there"}
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

case ${1:-} in
  --check) exec "$here/validate-kubernetes-node.sh" ;;
  "") ;;
  *) echo "prepare-kubernetes-node.sh: \"$1\" is not known; write --check or nothing" >&2 && exit 2 ;;
esac
# shellcheck source=/dev/null
source /etc/os-release
case $ID in
  debian | ubuntu) ;;
  *) echo "this is $PRETTY_NAME; nodes can be prepared on Debian and Ubuntu" >&2 && exit 2 ;;
esac
if [[ $(id --user) != 0 ]]; then
  echo "a node is prepared by root; run it with sudo" >&2
  exit 2
fi
if [[ -e /etc/kubernetes/kubelet.conf ]]; then
  echo "this machine is a node of a cluster already (/etc/kubernetes/kubelet.conf); see what it has with --check, and change it with kubeadm" >&2
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
