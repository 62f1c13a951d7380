#!/usr/bin/env bash
# Make the linker find CUDA, EFA and NCCL without LD_LIBRARY_PATH, which sshd does not pass on to ranks. Fail if the
# linker does not find a library, or finds MPI or NCCL more than once.
#   VENV   folder of the Python environment that provides NCCL and cuDNN; /opt/venv by default, if it exists
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

folders=()
for pattern in '/opt/amazon/efa/lib*' '/opt/amazon/ofi-nccl/lib*' /usr/local/cuda/lib64 /usr/local/lib \
  "${VENV:-/opt/venv}/lib/python3*/site-packages/nvidia/nccl/lib" "${VENV:-/opt/venv}/lib/python3*/site-packages/nvidia/cudnn/lib"; do
  while read -r folder; do
    if compgen -G "$folder/*.so*" >/dev/null; then folders+=("$folder"); fi
  done < <(compgen -G "$pattern")
done
printf '%s\n' "${folders[@]}" | "$here/put-file.sh" /etc/ld.so.conf.d/gpumpi.conf
ldconfig

cache=$(ldconfig --print-cache)
# NCCL opens libnccl-net.so unless NCCL_NET_PLUGIN selects another plugin, and the plugin opens libcudart.so:
# src/plugin/net.cc in NVIDIA/nccl v2.29.7-1, contrib/fedora/aws-ofi-nccl.spec in aws/aws-ofi-nccl 2daf7d3
for library in libmpi.so.40 libnccl.so.2 libfabric.so.1 libnccl-net.so libnccl-net-ofi.so libcudart.so libgdrapi.so.2; do
  paths=$(awk -v name="$library" '$1 == name { print $NF }' <<<"$cache" | sort --unique)
  if [[ -z $paths ]]; then
    echo "the linker does not find $library in ${folders[*]}: ranks that SSH starts would not find it. Use the base that the recipe names" >&2
    exit 1
  fi
  if [[ $library =~ ^lib(mpi|nccl)\.so && $(wc --lines <<<"$paths") -gt 1 ]]; then
    echo "the linker finds two of $library: ${paths//$'\n'/, }. Ranks could load different ones. Remove one of their folders from /etc/ld.so.conf.d" >&2
    exit 1
  fi
done
