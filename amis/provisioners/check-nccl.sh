#!/usr/bin/env bash
# Check that NCCL is installed; AWS's Deep Learning AMIs have it next to each CUDA version.
set -o errexit -o nounset -o pipefail

library=$(compgen -G "/usr/local/cuda/lib*/libnccl.so.2" | head --lines 1) || true
if [[ -z $library && $(ldconfig --print-cache) != *libnccl.so.2* ]]; then
  echo "libnccl.so.2 is neither below /usr/local/cuda nor in the linker's cache. Use one of AWS's Deep Learning AMIs as the base" >&2
  exit 1
fi
# The name of the file to which libnccl.so.2 links contains the version.
echo "NCCL $(basename "$(readlink --canonicalize "${library:-$(ldconfig --print-cache | awk '/libnccl.so.2 / { print $NF; exit }')}")")"
