#!/usr/bin/env bash
# Install kubeadm, kubelet and kubectl in the pinned version, and the programs that they call. If another version is
# installed, fail: use kubeadm to upgrade.
#   KUBERNETES_FOLDER   folder with the three programs, for machines without internet; default: pkgs.k8s.io
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
programs=(kubeadm kubelet kubectl) base=https://pkgs.k8s.io/core:/stable:/v${kubernetes_version%.*}/deb

must_be_pinned() { # PROGRAM CODE FIX
  local found
  case ${1##*/} in
    kubeadm) found=$("$1" version --output short) ;;
    kubelet) found=$("$1" --version) ;;
    kubectl) return ;; # supports one minor version of difference
  esac
  if [[ ${found##* } != "v$kubernetes_version" ]]; then
    echo "$1 is ${found##* }, expected v$kubernetes_version. $3" >&2
    exit "$2"
  fi
}
for program in "${programs[@]}"; do
  if there=$(command -v "$program"); then
    must_be_pinned "$there" 1 "Upgrade with kubeadm (docs/guides/on-premises.md), or pin another version in amis/versions.pkrvars.hcl"
  fi
  [[ ${KUBERNETES_FOLDER:-} ]] || continue
  if [[ ! -x $KUBERNETES_FOLDER/$program ]]; then
    echo "KUBERNETES_FOLDER: $KUBERNETES_FOLDER/$program does not exist or is not executable. Add it, or unset KUBERNETES_FOLDER" >&2
    exit 2
  fi
  must_be_pinned "$KUBERNETES_FOLDER/$program" 2 "Put that version into KUBERNETES_FOLDER"
done

"$here/install-packages.sh" conntrack ethtool iptables nfs-common socat
if [[ ${KUBERNETES_FOLDER:-} ]]; then
  for program in "${programs[@]}"; do
    command -v "$program" >/dev/null || install --mode=0755 "$KUBERNETES_FOLDER/$program" "/usr/bin/$program"
  done
  "$here/install-packages.sh" containernetworking-plugins
  install --directory --mode=0755 /opt/cni/bin
  ln --symbolic --force /usr/lib/cni/* /opt/cni/bin/
  changed=$("$here/put-file.sh" /etc/systemd/system/kubelet.service <"$here/../files/kubelet.service")
else
  "$here/add-apt-repository.sh" kubernetes "$base/Release.key" "$kubernetes_key_fingerprint" "$base/ /"
  printf 'Package: kubeadm kubelet kubectl\nPin: version %s-*\nPin-Priority: 1001\n' "$kubernetes_version" |
    "$here/put-file.sh" /etc/apt/preferences.d/kubernetes
  "$here/install-packages.sh" "${programs[@]}" cri-tools
  apt-mark hold "${programs[@]}" >/dev/null
  must_be_pinned /usr/bin/kubelet 1 "$base does not offer it for this machine. See: apt-cache policy kubelet"
  changed=
fi
sed "s/@KUBERNETES_VERSION@/$kubernetes_version/" "$here/../files/kubeadm.yaml" | "$here/put-file.sh" /etc/gpumpi/kubeadm.yaml

[[ -d /run/systemd/system ]] || exit 0
[[ -z $changed ]] || systemctl daemon-reload
systemctl enable --quiet kubelet.service # it restarts until kubeadm has written its configuration
