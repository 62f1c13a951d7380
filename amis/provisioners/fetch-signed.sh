#!/usr/bin/env bash
# Fetch a file and verify its detached PGP signature (URL.sig) by the fingerprint of the key. Called by other provisioners.
#   fetch-signed.sh URL KEY_URL FINGERPRINT FILE
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
url=$1 key_url=$2 fingerprint=$3 file=$4

work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
"$here/fetch-file.sh" "$url" "$file"
"$here/fetch-file.sh" "$url.sig" "$work/signature"
"$here/fetch-file.sh" "$key_url" "$work/key"
"$here/install-packages.sh" gpg
export GNUPGHOME=$work
gpg --batch --quiet --import "$work/key"
signed=$(gpg --batch --status-fd 1 --verify "$work/signature" "$file" 2>/dev/null | awk '$2 == "VALIDSIG" { print $3, $NF }') || true
if [[ " $signed " != *" $fingerprint "* ]]; then
  rm -f "$file"
  echo "$url is not signed by the key $fingerprint; found: ${signed:-no valid signature}" >&2
  exit 1
fi
