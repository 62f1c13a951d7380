#!/usr/bin/env bash
# Make the MPI in a folder the system's MPI: programs on every PATH (also for SSH commands), libraries in the linker's
# path, name and version in /etc/gpumpi/mpi. Called by other provisioners.
#   register-mpi.sh OpenMPI|MPICH|Intel VERSION FOLDER
set -o errexit -o nounset -o pipefail
implementation=$1 version=$2 folder=$3

ln --force --symbolic --no-dereference "$folder" /opt/mpi
for link in /usr/local/bin/*; do # links of the previous MPI
  if [[ -L $link && $(readlink "$link") == /opt/mpi/* ]]; then rm "$link"; fi
done
for program in "$folder"/bin/*; do
  if [[ -f $program && -x $program ]]; then ln --force --symbolic "/opt/mpi/bin/${program##*/}" /usr/local/bin/; fi
done
echo /opt/mpi/lib >/etc/ld.so.conf.d/mpi.conf
ldconfig

mkdir -p /etc/gpumpi
cat >/etc/gpumpi/mpi <<END
MPI_IMPLEMENTATION=$implementation
MPI_VERSION=$version
MPI_FOLDER=$folder
END
