#!/usr/bin/env bash
# Intel MPI runtime with its launcher hydra, from PyPI (Intel Simplified Software License, see share/licenses).
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
folder=/opt/intel-mpi-$intel_mpi_version

"$here/unpack-wheel.sh" impi-rt "$intel_mpi_version" "$intel_mpi_wheel_sha256" "$folder"
# Benchmarks, the tuning program and its tables: 40 MB that no job uses.
rm -rf "$folder"/bin/IMB-* "$folder"/bin/mpitune_fast "$folder"/opt/mpi/tune_fast
# libfabric and its providers are in separate folders. mpirun reads this file, and hydra passes the variables on.
cat >"$folder/bin/mpivars.sh" <<END
export I_MPI_ROOT=$folder FI_PROVIDER_PATH=$folder/lib/libfabric/prov
END
chmod 0755 "$folder/bin/mpivars.sh"
if [[ ! -L $folder/bin/mpiexec ]]; then
  mv --force "$folder/bin/mpiexec" "$folder/bin/mpiexec.hydra" # same program; mpirun calls it by this name
  ln --symbolic mpirun "$folder/bin/mpiexec"
fi
"$here/register-mpi.sh" Intel "$intel_mpi_version" "$folder"
echo /opt/mpi/lib/libfabric >>/etc/ld.so.conf.d/mpi.conf
ldconfig
