#!/usr/bin/env bash
# Packages of the distribution, without what they only recommend; the others call it.
#   install-packages.sh NAME...
set -o errexit -o nounset -o pipefail

missing=()
for name in "$@"; do
  dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null | grep --quiet --line-regexp installed || missing+=("$name")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
apt-get install --yes --quiet --quiet --no-install-recommends "${missing[@]}"
