#!/usr/bin/env bash
# A file from the network, checked by sha256; the others call it.
#   fetch-source.sh URL SHA256 FILE
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
url=$1 sha256=$2 file=$3

"$here/install-packages.sh" ca-certificates curl
curl --fail --silent --show-error --location --retry 3 --connect-timeout 30 --output "$file" "$url" || {
  echo "$url cannot be fetched; name another address, or skip what needs it in Packer's variable skip" >&2
  exit 1
}
found=$(sha256sum "$file" | cut -d ' ' -f 1)
if [[ $found != "$sha256" ]]; then
  echo "$url has the sha256 $found instead of $sha256: it is another file than the one that was pinned" >&2
  exit 1
fi
