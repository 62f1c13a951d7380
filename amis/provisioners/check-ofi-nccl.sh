#!/usr/bin/env bash
# Check aws-ofi-nccl, the plugin with which NCCL uses EFA. The linker must find it: SSH logins get no LD_LIBRARY_PATH.
# NCCL opens libnccl-net.so. The package lacks this file if the installer has mistaken the machine for an NGC container:
# contrib/debian-template/rules in https://github.com/aws/aws-ofi-nccl, 2daf7d3
set -o errexit -o nounset -o pipefail

# lib64 on Amazon Linux, lib on Ubuntu; the file name is that of EFA 1.44 and newer
plugin=$(compgen -G "/opt/amazon/ofi-nccl/lib*/libnccl-net-ofi.so" | head --lines 1) || true
if [[ -z $plugin ]]; then
  echo "libnccl-net-ofi.so is missing below /opt/amazon/ofi-nccl: NCCL would use TCP instead of EFA" >&2
  exit 1
fi
if [[ ! -e ${plugin%/*}/libnccl-net.so ]]; then
  echo "libnccl-net.so is missing in ${plugin%/*}: NCCL opens this name and would use TCP. Install EFA with --disable-ngc" >&2
  exit 1
fi
if [[ $(ldconfig --print-cache) != *"${plugin%/*}/libnccl-net.so"* ]]; then
  echo "${plugin%/*} is not in /etc/ld.so.conf.d: ranks that SSH starts would not find the plugin and use TCP" >&2
  exit 1
fi
echo "aws-ofi-nccl in ${plugin%/*}"
