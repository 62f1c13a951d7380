#!/usr/bin/env bash
# Download a file. Called by fetch-source.sh and fetch-signed.sh, which verify the file.
#   fetch-file.sh URL FILE
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
url=$1 file=$2

"$here/install-packages.sh" ca-certificates curl
curl --fail --silent --show-error --location --retry 3 --connect-timeout 30 --output "$file" "$url" || {
  echo "$url cannot be fetched. Set a proxy or mirror in Packer's variable environment, or skip the step that needs it" >&2
  exit 1
}
