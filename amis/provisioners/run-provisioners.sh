#!/usr/bin/env bash
# Runs provisioners one after the other. Those named in SKIP are not run, and nobody runs into that by accident: a machine's
# manifest says which were skipped, and why.
#   run-provisioners.sh SCRIPT...
#   SKIP   JSON, the reason by the script's name without .sh: {"install-efa": "no EFA in this region"}
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
record=/etc/gpumpi/provisioners

"$here/install-packages.sh" python3
install -d -m 0755 /etc/gpumpi
touch "$record"
declare -A reasons=()
while IFS=$'\t' read -r name reason; do
  if [[ " $* " != *" $name.sh "* ]]; then
    echo "SKIP names \"$name\"; what runs here is: ${*%.sh}" >&2
    exit 2
  fi
  if [[ -z $reason ]]; then
    echo "SKIP names $name without a reason; write why, the manifest keeps it" >&2
    exit 2
  fi
  reasons[$name]=$reason
done < <(python3 -c 'import json, sys; [print(*entry, sep="\t") for entry in json.loads(sys.argv[1]).items()]' "${SKIP:-"{}"}")

for script in "$@"; do
  name=${script%.sh}
  sed --in-place "/^[a-z]*\t$name\t/d" "$record"
  if [[ -v reasons[$name] ]]; then
    echo "== $name is skipped: ${reasons[$name]}"
    printf 'skipped\t%s\t%s\n' "$name" "${reasons[$name]}" >>"$record"
    continue
  fi
  echo "== $name"
  "$here/$script"
  printf 'done\t%s\t\n' "$name" >>"$record"
done
