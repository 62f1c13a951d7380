#!/usr/bin/env bash
# MPI for Python. The wheel finds the MPI library of the system when it is imported; MPI4PY_LIBMPI names another.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

installed=$(python3 -c 'import mpi4py; print(mpi4py.__version__)' 2>/dev/null || true)
[[ $installed == "$mpi4py_version" ]] && exit 0

requirement=$(mktemp)
trap 'rm -f "$requirement"' EXIT
printf '%s' "mpi4py==$mpi4py_version" >"$requirement"
for sha256 in $mpi4py_wheel_sha256 $mpi4py_other_sha256; do printf ' --hash=sha256:%s' "$sha256" >>"$requirement"; done
# The distribution's Python is meant: its own packages are not touched, pip puts this one below /usr/local.
# As variables: pip that is older than an option does not know it.
PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: \
  --require-hashes --requirement "$requirement"
