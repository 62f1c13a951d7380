#!/usr/bin/env bash
# A repository of packages whose key is known by its fingerprint; the others call it. What is there already is not fetched again.
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
  echo "$url cannot be fetched; is there a way to the internet? A closed network gives KUBERNETES_FOLDER, or skips what needs it" >&2
  exit 1
}
found=$(gpg --show-keys --with-colons "$key" | awk -F : '$1 == "fpr" { print $10; exit }')
if [[ $found != "$fingerprint" ]]; then
  echo "the repository at ${source%% *} is signed by the key $found instead of $fingerprint" >&2
  exit 1
fi
gpg --dearmor --yes --output "$keyring" "$key"
echo "$line" >"$list"
apt-get update --quiet --quiet
