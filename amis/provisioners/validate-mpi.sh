#!/usr/bin/env bash
# Fail unless the system's MPI has the expected version and two Python ranks of the login user compute a correct sum.
#   LOGIN_USER   the user, mpiuser by default
set -o errexit -o nounset -o pipefail
user=${LOGIN_USER:-mpiuser}
# shellcheck source=/dev/null
source /etc/gpumpi/mpi

reported=$(timeout 60 su "$user" -c "cd && mpirun --version" 2>&1)
if [[ $MPI_IMPLEMENTATION == Intel ]]; then wanted=${MPI_VERSION%.*}; else wanted=$MPI_VERSION; fi
if [[ $reported != *"$wanted"* ]]; then
  echo "mpirun --version reports the wrong version, expected $wanted: $reported" >&2
  exit 1
fi

program='from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.size, c.allreduce(c.rank + 1), MPI.Get_library_version().split(",")[0])'
options=()
if [[ $MPI_IMPLEMENTATION == OpenMPI ]]; then options=(--oversubscribe); fi
output=$(timeout 60 su "$user" -c "cd && mpirun ${options[*]} -n 2 python3 -c '$program'" 2>&1) || true
if [[ $(grep --count '^2 3 ' <<<"$output") -ne 2 ]]; then
  echo "$output" >&2
  echo "two ranks of $MPI_IMPLEMENTATION $MPI_VERSION did not compute the sum 3, see above" >&2
  exit 1
fi
echo "$MPI_IMPLEMENTATION $MPI_VERSION: $output"
