#!/usr/bin/env bash
# Fetch a file and verify its SHA-256 hash. Called by other provisioners.
#   fetch-source.sh URL SHA256 FILE
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
url=$1 sha256=$2 file=$3

"$here/fetch-file.sh" "$url" "$file"
found=$(sha256sum "$file" | cut -d ' ' -f 1)
if [[ $found != "$sha256" ]]; then
  echo "$url has the SHA-256 hash $found, but $sha256 is pinned" >&2
  exit 1
fi
