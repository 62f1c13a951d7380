#!/usr/bin/env bash
# Write flannel's manifest of the pinned version to FILE, for `kubectl apply`, after verifying its checksum.
#   fetch-flannel.sh FILE [BACKEND]     BACKEND: vxlan by default; host-gw is faster and needs all nodes in one network
#   FLANNEL_MANIFEST                    another URL for it, for example file:///media/kube-flannel.yml
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
file=$1 backend=${2:-vxlan}

case $backend in vxlan | host-gw) ;; *) echo "unknown backend \"$backend\". Use vxlan or host-gw" >&2 && exit 2 ;; esac
fetched=$(mktemp)
trap 'rm -f "$fetched"' EXIT
"$here/fetch-source.sh" "${FLANNEL_MANIFEST:-https://raw.githubusercontent.com/flannel-io/flannel/v$flannel_version/Documentation/kube-flannel.yml}" \
  "$flannel_sha256" "$fetched" || {
  echo "set FLANNEL_MANIFEST to another URL, for example file:///media/kube-flannel.yml" >&2
  exit 1
}
sed "s/\"Type\": \"vxlan\"/\"Type\": \"$backend\"/" "$fetched" | "$here/put-file.sh" "$file"
