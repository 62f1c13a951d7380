#!/usr/bin/env bash
# Check that the base AMI has NVIDIA's driver for its own kernel, without loading it: the build instance has no GPU.
#   NODE_KIND   ec2 (default) or eks
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

fail() {
  echo "the base AMI has no usable NVIDIA driver: $1. Use one of AWS's GPU AMIs as the base" >&2
  exit 1
}

command -v nvidia-smi >/dev/null || fail "nvidia-smi is missing"
if [[ ${NODE_KIND:-ec2} == eks ]]; then
  # At boot, EKS selects the module's archive by PCI ID and builds it:
  # https://github.com/awslabs/amazon-eks-ami, templates/al2023/provisioners/install-nvidia-driver.sh, read 2026-08-21
  compgen -G "/var/lib/dkms-archive/*" >/dev/null || fail "/var/lib/dkms-archive is empty"
  rpm --query --quiet kmod-nvidia-latest-dkms || fail "the package kmod-nvidia-latest-dkms is missing"
  systemctl is-enabled --quiet nvidia-kmod-load.service || fail "nvidia-kmod-load.service is not enabled"
  version=$(rpm --query --queryformat '%{VERSION}' kmod-nvidia-latest-dkms)
else
  version=$(modinfo --field version nvidia 2>/dev/null) || fail "the kernel $(uname --kernel-release) has no nvidia module"
fi
if [[ ${version%%.*} -lt $nvidia_driver_minimum ]]; then fail "driver $version is older than $nvidia_driver_minimum"; fi
echo "NVIDIA driver $version"
