#!/usr/bin/env bash
# Make the join service's hostfile Open MPI's default, for mpirun without --hostfile.
set -o errexit -o nounset -o pipefail
# shellcheck source=/dev/null
source /etc/gpumpi/mpi

touch /etc/gpumpi/hostfile # empty: mpirun uses this machine only
case $MPI_IMPLEMENTATION-${MPI_VERSION%%.*} in
  OpenMPI-4) name=openmpi-mca-params.conf parameter=orte_default_hostfile ;;
  OpenMPI-*) name=prte-mca-params.conf parameter=prte_default_hostfile ;;
  *) echo "$MPI_IMPLEMENTATION has no default hostfile; only Open MPI has one" >&2 && exit 2 ;;
esac
folder=$MPI_FOLDER/etc
# AWS's Open MPI 5 has its launcher, PRRTE, in its own folder. NOT VERIFIED: we know this from package names only, so
# validate-node.sh starts mpirun to see whether it reads the hostfile.
if [[ $MPI_FOLDER == /opt/amazon/openmpi5 ]]; then folder=/opt/amazon/prrte/etc; fi
install -d -m 0755 "$folder"
file=$folder/$name
touch "$file"
grep --quiet "^$parameter" "$file" || echo "$parameter = /etc/gpumpi/hostfile" >>"$file"
