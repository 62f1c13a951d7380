#!/usr/bin/env bash
# Add an apt repository and verify its key by fingerprint. Called by other provisioners. Does nothing if the
# repository was already added.
#   add-apt-repository.sh NAME KEY-URL FINGERPRINT "URL SUITE"
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
name=$1 url=$2 fingerprint=$3 source=$4
keyring=/usr/share/keyrings/$name.gpg list=/etc/apt/sources.list.d/$name.list line="deb [signed-by=/usr/share/keyrings/$1.gpg] $4"

[[ -e $keyring && -e $list && $(cat "$list") == "$line" ]] && exit 0
"$here/install-packages.sh" ca-certificates curl gpg
key=$(mktemp)
trap 'rm -f "$key"' EXIT
curl --fail --silent --show-error --location --retry 3 --connect-timeout 30 --output "$key" "$url" || {
  echo "$url cannot be fetched. Check the route to the internet; without one set KUBERNETES_FOLDER, or skip the step that needs it" >&2
  exit 1
}
found=$(gpg --show-keys --with-colons "$key" | awk -F : '$1 == "fpr" { print $10; exit }')
if [[ $found != "$fingerprint" ]]; then
  echo "the repository at ${source%% *} is signed by key $found, expected $fingerprint" >&2
  exit 1
fi
gpg --dearmor --yes --output "$keyring" "$key"
echo "$line" >"$list"
