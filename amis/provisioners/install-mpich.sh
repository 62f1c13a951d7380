#!/usr/bin/env bash
# MPICH with its launcher hydra, from PyPI.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

"$here/unpack-wheel.sh" mpich "$mpich_version" "$mpich_wheel_sha256" "/opt/mpich-$mpich_version"
"$here/register-mpi.sh" MPICH "$mpich_version" "/opt/mpich-$mpich_version"
