#!/usr/bin/env bash
# Intel MPI's runtime with its launcher hydra, from PyPI (Intel Simplified Software License; its text is in share/licenses).
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
folder=/opt/intel-mpi-$intel_mpi_version

"$here/unpack-wheel.sh" impi-rt "$intel_mpi_version" "$intel_mpi_wheel_sha256" "$folder"
# Benchmarks, the tuning program and the tables of its fast mode: 40 MB that no job starts.
rm -rf "$folder"/bin/IMB-* "$folder"/bin/mpitune_fast "$folder"/opt/mpi/tune_fast
# Its libfabric is in a folder of its own, and so are the libraries of its transports; mpirun reads this, and hydra hands it on.
cat >"$folder/bin/mpivars.sh" <<END
export I_MPI_ROOT=$folder FI_PROVIDER_PATH=$folder/lib/libfabric/prov
END
chmod 0755 "$folder/bin/mpivars.sh"
if [[ ! -L $folder/bin/mpiexec ]]; then
  mv --force "$folder/bin/mpiexec" "$folder/bin/mpiexec.hydra" # the same program, which mpirun calls
  ln --symbolic mpirun "$folder/bin/mpiexec"
fi
"$here/register-mpi.sh" Intel "$intel_mpi_version" "$folder"
echo /opt/mpi/lib/libfabric >>/etc/ld.so.conf.d/mpi.conf
ldconfig
