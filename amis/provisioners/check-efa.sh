#!/usr/bin/env bash
# Check EFA: the kernel module, libfabric, and a version in which GPUDirect RDMA works with current NVIDIA drivers.
#   NODE_KIND   `image` for a container image, which has no kernel module and sees no device
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

fail() {
  echo "EFA is incomplete: $1. Use a base AMI with EFA $efa_minimum or newer, or run install-efa.sh" >&2
  exit 1
}

record=/opt/amazon/efa_installed_packages
version=$(sed --quiet 's/^# EFA installer version: //p' "$record" 2>/dev/null | tail --lines 1) || true
[[ -n $version ]] || fail "$record names no installer version"
oldest=$(printf '%s\n%s\n' "$version" "$efa_minimum" | sort --version-sort | head --lines 1)
[[ $oldest == "$efa_minimum" ]] || fail "version $version is older than $efa_minimum"
kind=${NODE_KIND:-ec2}
[[ $kind == image ]] || modinfo efa >/dev/null 2>&1 || fail "the kernel $(uname --kernel-release) has no efa module"
# lib64 on Amazon Linux, lib on Ubuntu
compgen -G "/opt/amazon/efa/lib*/libfabric.so.1" >/dev/null || fail "libfabric is missing below /opt/amazon/efa"
if [[ $kind != image ]] && grep --quiet --no-messages 0xefa /sys/bus/pci/devices/*/device; then
  /opt/amazon/efa/bin/fi_info -p efa >/dev/null || fail "libfabric finds no EFA device, and this machine has one"
fi
echo "EFA $version"
