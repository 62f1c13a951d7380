#!/usr/bin/env bash
# Writes what it is given into a file, if the file is another, and then says its name; the others call it.
#   put-file.sh FILE <TEXT
set -o errexit -o nounset -o pipefail
file=$1

new=$(mktemp)
trap 'rm -f "$new"' EXIT
cat >"$new"
cmp --silent "$new" "$file" && exit 0
install -D --mode=0644 "$new" "$file"
echo "$file"
