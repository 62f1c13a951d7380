#!/usr/bin/env bash
# Fails unless the system's MPI is the wanted version and two ranks of Python programs sum up right, as the login user.
#   LOGIN_USER   mpiuser by default
set -o errexit -o nounset -o pipefail
user=${LOGIN_USER:-mpiuser}
# shellcheck source=/dev/null
source /etc/gpumpi/mpi

reported=$(timeout 60 su "$user" -c "cd && mpirun --version" 2>&1)
if [[ $MPI_IMPLEMENTATION == Intel ]]; then wanted=${MPI_VERSION%.*}; else wanted=$MPI_VERSION; fi
if [[ $reported != *"$wanted"* ]]; then
  echo "mpirun --version does not say $wanted but: $reported" >&2
  exit 1
fi

program='from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.size, c.allreduce(c.rank + 1), MPI.Get_library_version().split(",")[0])'
options=()
if [[ $MPI_IMPLEMENTATION == OpenMPI ]]; then options=(--oversubscribe); fi
output=$(timeout 60 su "$user" -c "cd && mpirun ${options[*]} -n 2 python3 -c '$program'" 2>&1) || true
if [[ $(grep --count '^2 3 ' <<<"$output") -ne 2 ]]; then
  echo "two ranks of $MPI_IMPLEMENTATION $MPI_VERSION did not come to the sum 3: $output" >&2
  exit 1
fi
echo "$MPI_IMPLEMENTATION $MPI_VERSION: $output"
