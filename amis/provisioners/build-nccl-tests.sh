#!/usr/bin/env bash
# Build NVIDIA's nccl-tests with MPI in /opt/nccl-tests: bandwidth and correctness of all_reduce and other collectives.
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
"$here/fetch-source.sh" "https://github.com/NVIDIA/nccl-tests/archive/v$nccl_tests_version.tar.gz" "$nccl_tests_sha256" "$work/source"
tar --extract --file "$work/source" --directory "$work" --strip-components 1
make --silent --directory "$work" --jobs="$(nproc)" MPI=1 MPI_HOME=/opt/mpi CUDA_HOME=/usr/local/cuda
rm -rf "$folder"
install -D --mode 0755 --target-directory "$folder" "$work"/build/*_perf
echo "$state" >"$folder/.complete"
