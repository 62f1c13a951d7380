#!/usr/bin/env bash
# Run provisioners in order, except those named in SKIP. The machine's manifest lists the skipped provisioners and the reasons.
#   run-provisioners.sh SCRIPT...
#   SKIP   JSON object of script names without .sh and reasons: {"install-efa": "no EFA in this region"}
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
record=/etc/gpumpi/provisioners

"$here/install-packages.sh" python3
install -d -m 0755 /etc/gpumpi
touch "$record"
declare -A reasons=()
while IFS=$'\t' read -r name reason; do
  if [[ " $* " != *" $name.sh "* ]]; then
    echo "SKIP: \"$name\" is not one of the steps. Choose from: ${*%.sh}" >&2
    exit 2
  fi
  if [[ -z $reason ]]; then
    echo "SKIP: $name has no reason. Add one; the manifest records it" >&2
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
