#!/usr/bin/env bash
# Write stdin to FILE if the content differs, and then print its name. Called by other provisioners.
#   put-file.sh FILE <TEXT
set -o errexit -o nounset -o pipefail
file=$1

new=$(mktemp)
trap 'rm -f "$new"' EXIT
cat >"$new"
cmp --silent "$new" "$file" && exit 0
install -D --mode=0644 "$new" "$file"
echo "$file"
