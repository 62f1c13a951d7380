#!/usr/bin/env bash
# Remove parts of AWS's Deep Learning Containers that our job images must not have: root's SSH key pair, which all
# containers share, a wrapper that runs Open MPI 4.1 as root without binding, and telemetry in every shell.
# Source: scripts/docker/common/install_efa_amzn2023.sh and docker/base/cu132/Dockerfile in
# https://github.com/aws/deep-learning-containers, commit e0ecede, 2026-08-21
set -o errexit -o nounset -o pipefail

rm -rf ~root/.ssh
[[ ! -e /etc/ssh/ssh_config ]] || sed --in-place '/^[[:space:]]*StrictHostKeyChecking no$/d' /etc/ssh/ssh_config

older=/opt/amazon/openmpi
[[ ! -e $older/bin/mpirun.real ]] || mv "$older/bin/mpirun.real" "$older/bin/mpirun"
if [[ -e $older/etc/openmpi-mca-params.conf ]]; then
  sed --in-place '/^hwloc_base_binding_policy = none$/d; /^rmaps_base_mapping_policy = slot$/d' "$older/etc/openmpi-mca-params.conf"
fi

# This line starts Python at each SSH login. OPT_OUT_TRACKING would prevent that, but sshd does not pass this variable on.
for file in /etc/bashrc ~root/.bashrc; do
  [[ ! -e $file ]] || sed --in-place '/bash_telemetry\.sh/d' "$file"
done
rm -f /usr/local/bin/bash_telemetry.sh /usr/local/bin/deep_learning_container.py

rm -f /etc/ssh/ssh_host_*
if command -v dnf >/dev/null; then dnf clean all --quiet; fi
rm -rf /var/cache/dnf ~root/.cache
