#!/usr/bin/env bash
# Build NVIDIA's nccl-tests with the system's MPI in /opt/nccl-tests. These tests measure bandwidth and check the
# correctness of all_reduce and other collectives. AWS's PyTorch image has an all_reduce_perf for Open MPI 4.1, which
# this build replaces.
#   NCCL_TESTS_SOURCE   URL of the source, such as a mirror; the release on GitHub by default
#   NCCL_TESTS_JOBS     number of parallel compilers, 4 by default; each needs several GiB of memory
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
folder=/opt/nccl-tests
state=$nccl_tests_version-$(readlink --canonicalize /opt/mpi)

[[ $(cat "$folder/.complete" 2>/dev/null) == "$state" ]] && exit 0
"$here/install-packages.sh" build-essential
work=$(mktemp --directory --tmpdir=/var/tmp)
trap 'rm -rf "$work"' EXIT
source=${NCCL_TESTS_SOURCE:-https://github.com/NVIDIA/nccl-tests/archive/v$nccl_tests_version.tar.gz}
"$here/fetch-source.sh" "$source" "$nccl_tests_sha256" "$work/source"
tar --extract --gzip --file "$work/source" --directory "$work" --strip-components 1
# pip installs NCCL's headers next to the library; the distribution's package installs them in /usr.
nccl=$(compgen -G "/opt/venv/lib/python3*/site-packages/nvidia/nccl" | head --lines 1) || true
if [[ -n $nccl && ! -e $nccl/lib/libnccl.so ]]; then # NVIDIA's wheel only has libnccl.so.2, which the linker does not look for
  mkdir -p "$work/nccl/lib"
  ln --symbolic "$nccl/include" "$work/nccl/include"
  ln --symbolic "$nccl/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so"
  nccl=$work/nccl
fi
# Set CXXSTD because CUDA 13 needs C++17, and the Makefile detects CUDA's version with `which`, which Amazon Linux may
# lack.
make --silent --directory "$work" --jobs="${NCCL_TESTS_JOBS:-4}" MPI=1 MPI_HOME=/opt/mpi CUDA_HOME=/usr/local/cuda NCCL_HOME="${nccl:-/usr}" CXXSTD=-std=c++17
rm -rf "$folder"
install -D --mode 0755 --target-directory "$folder" "$work"/build/*_perf
for program in "$folder"/*_perf; do ln --force --symbolic "$program" /usr/local/bin/; done
echo "$state" >"$folder/.complete"
