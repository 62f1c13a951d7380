#!/usr/bin/env bash
# Unzip a PyPI wheel into a folder after verifying its sha256. Called by other provisioners.
#   fetch-wheel.sh NAME VERSION SHA256 FOLDER
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
name=$1 version=$2 sha256=$3 folder=$4

"$here/install-packages.sh" ca-certificates python3 python3-pip unzip
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
echo "$name==$version --hash=sha256:$sha256" >"$work/requirement"
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes --requirement "$work/requirement" --dest "$work"
unzip -q "$work"/*.whl -d "$folder"
