#!/usr/bin/env bash
# Without the CUDA toolkit: install its headers from NVIDIA's PyPI package, and a stub libcuda.so for linking, like the
# one in the toolkit's folder stubs. This is enough to compile a CUDA-aware MPI; the driver contains the real libcuda.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
folder=/opt/cuda-headers-$cuda_headers_version

[[ -e /usr/local/cuda/include/cuda.h ]] && exit 0
if [[ ! -e $folder/.complete ]]; then
  "$here/install-packages.sh" gcc libc6-dev
  work=$(mktemp --directory)
  trap 'rm -rf "$work"' EXIT
  "$here/fetch-wheel.sh" nvidia-cuda-runtime-cu12 "$cuda_headers_version" "$cuda_headers_wheel_sha256" "$work/content"
  rm -rf "$folder"
  mkdir -p "$folder/lib64/stubs"
  cp --recursive "$work/content/nvidia/cuda_runtime/include" "$folder/include"
  # Every function that cuda.h declares, both under its own name and under the name to which the header's macros map it.
  { cat "$folder/include/cuda.h" && gcc -E -I "$folder/include" -P "$folder/include/cuda.h"; } | tr '\n;' ' \n' |
    grep --only-matching --extended-regexp 'CUresult +(CUDAAPI +)?cu[A-Z][A-Za-z0-9_]* *\(' |
    sed --regexp-extended 's/.* (cu[A-Za-z0-9_]+) *\(/\1/' | sort --unique |
    awk '{ print "int " $1 "(void) { return 34; }" }' >"$work/stub.c" # CUDA_ERROR_STUB_LIBRARY
  gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$folder/lib64/stubs/libcuda.so" "$work/stub.c"
  touch "$folder/.complete"
fi
ln --force --symbolic --no-dereference "$folder" /opt/cuda-headers
