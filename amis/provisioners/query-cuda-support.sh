#!/usr/bin/env bash
# Fail unless the Open MPI in a folder reports that it was built with CUDA support. Called by other provisioners.
#   query-cuda-support.sh FOLDER
# A machine without NVIDIA's driver has no libcuda.so.1, and then Open MPI may not load its CUDA components
# (https://github.com/open-mpi/ompi/issues/13750): for this query only, the toolkit's stub replaces it.
set -o errexit -o nounset -o pipefail
folder=$1

if [[ $(ldconfig --print-cache) != *libcuda.so.1* ]]; then
  for stub in /usr/local/cuda/lib64/stubs/libcuda.so /opt/cuda-headers-*/lib64/stubs/libcuda.so; do
    [[ -e $stub ]] || continue
    stubs=$(mktemp --directory)
    trap 'rm -rf "$stubs"' EXIT
    ln --symbolic "$stub" "$stubs/libcuda.so.1"
    export LD_LIBRARY_PATH=$stubs
    break
  done
fi
unset OPAL_PREFIX
reported=$("$folder/bin/ompi_info" --parsable --all 2>&1) || true
if [[ $reported != *mpi_built_with_cuda_support:value:true* ]]; then
  echo "Open MPI in $folder is not CUDA-aware: ompi_info does not report mpi_built_with_cuda_support. Passing it a GPU buffer would" \
    "crash or hang" >&2
  exit 1
fi
