#!/usr/bin/env bash
# Install NVIDIA's driver with open kernel modules and the fabric manager, unless the machine has a driver. For
# on-premises nodes: AWS's AMIs have a driver. DKMS rebuilds the modules for a newer kernel.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

command -v nvidia-smi >/dev/null && exit 0
"$here/add-nvidia-repository.sh"
"$here/install-packages.sh" build-essential dkms "linux-headers-$(uname --kernel-release)"
branch=${nvidia_driver_version%%.*}
# All driver packages must have the same version: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
printf 'Package: *nvidia* libcuda* cuda-drivers*\nPin: version %s*\nPin-Priority: 1001\n' "$nvidia_driver_version" \
  >/etc/apt/preferences.d/nvidia-driver
# From 580 on, NVIDIA's package has no branch in its name. Ubuntu's nvidia-fabricmanager-580 needs Canonical's driver:
# https://github.com/NVIDIA/gpu-driver-container/pull/451. nvlsm is the subnet manager of B200 and B300. Their fabric manager
# needs nvlsm and ib_umad; without them, CUDA fails with error 802. EKS's AMI installs both of them on every GPU node:
# templates/al2023/provisioners/install-nvidia-driver.sh in https://github.com/awslabs/amazon-eks-ami, 81fec2e. NOT VERIFIED
# on a machine with a GPU.
"$here/install-packages.sh" "nvidia-open-$branch" nvidia-fabricmanager nvidia-persistenced nvlsm infiniband-diags
echo ib_umad | "$here/put-file.sh" /etc/modules-load.d/50-gpumpi-nvlsm.conf
systemctl enable nvidia-fabricmanager.service nvidia-persistenced.service
