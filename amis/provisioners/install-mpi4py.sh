#!/usr/bin/env bash
# Install MPI for Python. On import, the wheel loads the system's MPI library; set MPI4PY_LIBMPI to use another.
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
# Install for the distribution's Python without touching its packages: pip installs below /usr/local.
# Use variables instead of options, because older pips reject unknown options.
PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: \
  --require-hashes --requirement "$requirement"
