#!/usr/bin/env bash
# Check that the base AMI starts NVIDIA's fabric manager: GPUs behind NVSwitch (P4d and newer) need it.
set -o errexit -o nounset -o pipefail

if ! systemctl is-enabled --quiet nvidia-fabricmanager.service; then
  echo "nvidia-fabricmanager.service is not enabled in the base AMI: CUDA would fail with error 802 on P4d and newer." \
    "Use one of AWS's GPU AMIs as the base" >&2
  exit 1
fi
echo "nvidia-fabricmanager.service is enabled"
