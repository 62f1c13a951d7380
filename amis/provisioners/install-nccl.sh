#!/usr/bin/env bash
# NCCL from NVIDIA's repository, for the toolkit's CUDA version. It uses EFA through the EFA installer's aws-ofi-nccl.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
full=$nccl_version+cuda${cuda_version%.*}

"$here/add-nvidia-repository.sh"
if command -v dnf >/dev/null; then
  "$here/install-packages.sh" "libnccl-$full" "libnccl-devel-$full"
elif [[ $(dpkg-query --show --showformat='${Version}' libnccl-dev 2>/dev/null) != "$full" ]]; then
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --allow-downgrades --allow-change-held-packages \
    "libnccl2=$full" "libnccl-dev=$full"
  apt-mark hold libnccl2 libnccl-dev >/dev/null
fi
if [[ -d /opt/amazon/ofi-nccl/lib ]]; then
  echo /opt/amazon/ofi-nccl/lib >/etc/ld.so.conf.d/ofi-nccl.conf
  ldconfig
fi
