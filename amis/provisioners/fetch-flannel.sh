#!/usr/bin/env bash
# The pod network's manifest, for `kubectl apply`: flannel's own of the pinned version, checked, and written to FILE.
#   fetch-flannel.sh FILE [BACKEND]     BACKEND: vxlan by default; host-gw where all nodes are in one network, which is faster
#   FLANNEL_MANIFEST                    another address of it, like file:///media/kube-flannel.yml
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
file=$1 backend=${2:-vxlan}

case $backend in vxlan | host-gw) ;; *) echo "the backend is \"$backend\"; write vxlan or host-gw" >&2 && exit 2 ;; esac
fetched=$(mktemp)
trap 'rm -f "$fetched"' EXIT
"$here/fetch-source.sh" "${FLANNEL_MANIFEST:-https://raw.githubusercontent.com/flannel-io/flannel/v$flannel_version/Documentation/kube-flannel.yml}" \
  "$flannel_sha256" "$fetched" || {
  echo "the variable FLANNEL_MANIFEST names another address, like file:///media/kube-flannel.yml" >&2
  exit 1
}
sed "s/\"Type\": \"vxlan\"/\"Type\": \"$backend\"/" "$fetched" | "$here/put-file.sh" "$file"
