#!/usr/bin/env bash
# NVIDIA's driver with open kernel modules and the fabric manager of NVSwitch machines, where no driver is. The machine that
# builds needs no GPU. On a newer kernel DKMS builds the modules again.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

command -v nvidia-smi >/dev/null && exit 0 # EKS' AMI has one, for its own kernel
"$here/add-nvidia-repository.sh"
"$here/install-packages.sh" build-essential dkms "linux-headers-$(uname --kernel-release)"
branch=${nvidia_driver_version%%.*}
# The driver's parts must be of one version: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
printf 'Package: *nvidia* libcuda* cuda-drivers*\nPin: version %s*\nPin-Priority: 1001\n' "$nvidia_driver_version" \
  >/etc/apt/preferences.d/nvidia-driver
"$here/install-packages.sh" "nvidia-open-$branch" "nvidia-fabricmanager-$branch" nvidia-persistenced
systemctl enable nvidia-fabricmanager.service nvidia-persistenced.service
