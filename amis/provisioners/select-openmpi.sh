#!/usr/bin/env bash
# Make one CUDA-aware Open MPI the machine's MPI: the one that AWS's EFA installer ships, or one compiled from source.
#   OPENMPI_ORIGIN   aws (default), upstream or debian; the last two are compiled (see build-openmpi.sh)
#   OPENMPI_SERIES   5 (default) or 4; AWS's 4.1 is not CUDA-aware, so 4 must be compiled
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

case ${OPENMPI_ORIGIN:-aws}-${OPENMPI_SERIES:-5} in
  aws-5) folder=/opt/amazon/openmpi5 ;;
  aws-4)
    # Measured on AL2023 in July 2026: osu_latency with GPU buffers hangs at 100% CPU without an error.
    echo "AWS's Open MPI 4.1 in /opt/amazon/openmpi is not CUDA-aware. Use openmpi=5, or compile 4.1 with openmpi_origin=upstream" >&2
    exit 2
    ;;
  *) exec "$here/build-openmpi.sh" ;;
esac
if [[ ! -x $folder/bin/mpirun ]]; then
  echo "$folder/bin/mpirun is missing. Use a base AMI with the full EFA installer, or compile Open MPI with" \
    "openmpi_origin=upstream" >&2
  exit 1
fi
"$here/query-cuda-support.sh" "$folder"
version=$("$folder/bin/mpirun" --version | sed --quiet 's/^mpirun (Open MPI) //p')
"$here/register-mpi.sh" OpenMPI "$version" "$folder"
