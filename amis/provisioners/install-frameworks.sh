#!/usr/bin/env bash
# Install machine learning frameworks for the distribution's Python, from the hash-locked package sets in
# amis/frameworks/.
#   FRAMEWORKS   names of the sets, separated by spaces; none by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

read -r -a names <<<"${FRAMEWORKS:-}"
for name in "${names[@]}"; do
  requirements=$here/../frameworks/$name.txt
  if [[ ! -e $requirements ]]; then
    echo "FRAMEWORKS: amis/frameworks/$name.txt does not exist. Write one with pip's checksums" >&2
    exit 2
  fi
  kept=/opt/gpumpi/frameworks/$name.txt
  cmp --silent "$requirements" "$kept" && continue
  "$here/install-packages.sh" ca-certificates python3-pip python3-setuptools python3-wheel
  # Build sources with the distribution's setuptools, because the version that pip would fetch is not pinned.
  PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --ignore-installed --no-build-isolation \
    --no-deps --require-hashes --requirement "$requirements"
  install -D --mode 0644 "$requirements" "$kept"
done
