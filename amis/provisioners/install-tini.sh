#!/usr/bin/env bash
# Install tini as /usr/bin/tini. tini is the first process of a pod: it forwards signals and reaps zombies.
#   TINI_SOURCE   URL of the static program, such as a mirror; the release on GitHub by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

if ! command -v dnf >/dev/null; then exec "$here/install-packages.sh" tini; fi
# Amazon Linux has no tini package.
target=/usr/bin/tini
if [[ -e $target && $(sha256sum $target | cut -d ' ' -f 1) == "$tini_static_sha256" ]]; then exit 0; fi
source=${TINI_SOURCE:-https://github.com/krallin/tini/releases/download/v$tini_version/tini-static-amd64}
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
"$here/fetch-source.sh" "$source" "$tini_static_sha256" "$work/tini"
install -m 0755 "$work/tini" $target
