#!/usr/bin/env bash
# Build Horovod over MPI for the installed TensorFlow and Open MPI, then remove the compiler. For GPUs set
# HOROVOD_GPU_OPERATIONS=NCCL.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

built() { python3 -c 'import horovod.tensorflow as hvd; assert hvd.mpi_built()' 2>/dev/null; }
built && exit 0
compilers=(cmake g++ make python3-dev)
"$here/install-packages.sh" "${compilers[@]}"
cores=$(nproc)
HOROVOD_WITH_MPI=1 HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITHOUT_GLOO=1 \
  MAKEFLAGS="--jobs=$cores" FRAMEWORKS=horovod "$here/install-frameworks.sh"
if command -v apt-get >/dev/null; then
  apt-get purge --yes --quiet --quiet --auto-remove "${compilers[@]}" >/dev/null
fi
built
