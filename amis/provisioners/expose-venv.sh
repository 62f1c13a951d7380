#!/usr/bin/env bash
# Make commands over SSH use the Python of a virtual environment: sshd's PATH lacks the environment's folder.
#   VENV   folder of the environment, /opt/venv by default
set -o errexit -o nounset -o pipefail
venv=${VENV:-/opt/venv}

if [[ ! -x $venv/bin/python3 ]]; then
  echo "$venv/bin/python3 is missing. Set VENV to the folder of the Python environment" >&2
  exit 1
fi
for name in python python3 torchrun; do
  [[ -x $venv/bin/$name ]] || continue
  # Use a script instead of a link, because Python locates its packages relative to the path of its executable.
  # shellcheck disable=SC2016 # expanded by the written script
  printf '#!/bin/sh\nexec %s "$@"\n' "$venv/bin/$name" >"/usr/local/bin/$name.part"
  chmod 0755 "/usr/local/bin/$name.part"
  mv "/usr/local/bin/$name.part" "/usr/local/bin/$name"
done
