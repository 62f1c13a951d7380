#!/usr/bin/env bash
# Install NVIDIA's container runtime, which gives containers access to GPUs.
# https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
base=https://nvidia.github.io/libnvidia-container

command -v nvidia-container-runtime >/dev/null && exit 0
"$here/add-apt-repository.sh" nvidia-container-toolkit "$base/gpgkey" "$nvidia_container_key_fingerprint" \
  "$base/stable/deb/$(dpkg --print-architecture) /"
printf 'Package: nvidia-container-toolkit* libnvidia-container*\nPin: version %s\nPin-Priority: 1001\n' \
  "$nvidia_container_toolkit_version" | "$here/put-file.sh" /etc/apt/preferences.d/nvidia-container-toolkit
"$here/install-packages.sh" nvidia-container-toolkit
