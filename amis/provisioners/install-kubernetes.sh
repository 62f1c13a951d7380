#!/usr/bin/env bash
# kubeadm, kubelet and kubectl of the pinned version, and what they call. An upgrade is kubeadm's business: another version that is
# there already is an error, not replaced.
#   KUBERNETES_FOLDER   a folder with the three programs, for closed networks; by default they come from pkgs.k8s.io
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
programs=(kubeadm kubelet kubectl) base=https://pkgs.k8s.io/core:/stable:/v${kubernetes_version%.*}/deb

must_be_pinned() { # PROGRAM CODE WAY-OUT
  local found
  case ${1##*/} in
    kubeadm) found=$("$1" version --output short) ;;
    kubelet) found=$("$1" --version) ;;
    kubectl) return ;; # one version more or less is fine
  esac
  if [[ ${found##* } != "v$kubernetes_version" ]]; then
    echo "$1 is ${found##* }, not v$kubernetes_version; $3" >&2
    exit "$2"
  fi
}
for program in "${programs[@]}"; do
  if there=$(command -v "$program"); then
    must_be_pinned "$there" 1 "upgrade with kubeadm (docs/on-premises.md), or pin another version in amis/versions.pkrvars.hcl"
  fi
  [[ ${KUBERNETES_FOLDER:-} ]] || continue
  if [[ ! -x $KUBERNETES_FOLDER/$program ]]; then
    echo "KUBERNETES_FOLDER: there is no program $KUBERNETES_FOLDER/$program; put it there, or leave the variable out" >&2
    exit 2
  fi
  must_be_pinned "$KUBERNETES_FOLDER/$program" 2 "put that one into KUBERNETES_FOLDER"
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
  must_be_pinned /usr/bin/kubelet 1 "$base does not offer it to this machine; look at: apt-cache policy kubelet"
  changed=
fi
sed "s/@KUBERNETES_VERSION@/$kubernetes_version/" "$here/../files/kubeadm.yaml" | "$here/put-file.sh" /etc/gpumpi/kubeadm.yaml

[[ -d /run/systemd/system ]] || exit 0
[[ -z $changed ]] || systemctl daemon-reload
systemctl enable --quiet kubelet.service # it waits for kubeadm, which tells it what to do
