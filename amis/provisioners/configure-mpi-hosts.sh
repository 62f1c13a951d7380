#!/usr/bin/env bash
# mpirun takes its hosts from the file that the join service keeps, wherever none is given.
set -o errexit -o nounset -o pipefail
# shellcheck source=/dev/null
source /etc/gpumpi/mpi

touch /etc/gpumpi/hostfile # mpirun takes an empty one for "this machine alone"
case $MPI_IMPLEMENTATION-${MPI_VERSION%%.*} in
  OpenMPI-4) name=openmpi-mca-params.conf parameter=orte_default_hostfile ;;
  OpenMPI-*) name=prte-mca-params.conf parameter=prte_default_hostfile ;;
  *) echo "only Open MPI has a default hostfile, not $MPI_IMPLEMENTATION" >&2 && exit 2 ;;
esac
install -d -m 0755 "$MPI_FOLDER/etc"
file=$MPI_FOLDER/etc/$name
touch "$file"
grep --quiet "^$parameter" "$file" || echo "$parameter = /etc/gpumpi/hostfile" >>"$file"
