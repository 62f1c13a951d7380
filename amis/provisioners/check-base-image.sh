#!/usr/bin/env bash
# Check that the base of a job image is one of AWS's Deep Learning Containers with the full EFA stack.
#   check-base-image.sh REFERENCE
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
reference=$1

echo "NOT VERIFIED: this recipe was written from the sources of AWS's images of 2026-08-21 and tested with stubs (docs/guides/images.md)" >&2
if [[ $reference != *@sha256:* ]]; then
  echo "NOT VERIFIED: the base $reference is a tag, which AWS moves. To pin it, pass its digest: --build-arg BASE=IMAGE@sha256:..." >&2
fi
missing=()
for pattern in /opt/amazon/openmpi5/bin/mpirun '/opt/amazon/efa/lib*/libfabric.so.1' '/opt/amazon/ofi-nccl/lib*/libnccl-net-ofi.so' \
  /usr/local/cuda/bin/nvcc '/usr/local/lib/libgdrapi.so*'; do
  compgen -G "$pattern" >/dev/null || missing+=("$pattern")
done
if ! compgen -G "/usr/lib64/libnccl.so.2" >/dev/null && ! compgen -G "/opt/venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2" >/dev/null; then
  missing+=("NCCL (/usr/lib64/libnccl.so.2, or pip's in /opt/venv)")
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "the base $reference lacks ${missing[*]}. Use the base that the recipe names, or one of AWS's Deep Learning Containers with EFA" >&2
  exit 1
fi
NODE_KIND=image "$here/check-efa.sh"
