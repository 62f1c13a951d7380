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
libraries=lib
if compgen -G "$folder/lib64/libmpi.so*" >/dev/null; then libraries=lib64; fi # AWS's Open MPI on Amazon Linux
echo "/opt/mpi/$libraries" >/etc/ld.so.conf.d/mpi.conf
if [[ -d /opt/amazon/openmpi ]]; then
  # Register only one of AWS's two Open MPIs: both contain libmpi.so.40. AWS's shell profile puts 4.1 first on PATH.
  sed --in-place '\#^/opt/amazon/openmpi#d' /etc/ld.so.conf.d/*.conf
  # shellcheck disable=SC2016 # expanded at login
  echo 'PATH=/opt/mpi/bin:$PATH' >/etc/profile.d/zz-gpumpi-mpi.sh
fi
ldconfig

mkdir -p /etc/gpumpi
cat >/etc/gpumpi/mpi <<END
MPI_IMPLEMENTATION=$implementation
MPI_VERSION=$version
MPI_FOLDER=$folder
END
