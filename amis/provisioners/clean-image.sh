#!/usr/bin/env bash
# Last step: remove what must be unique per machine or is private: SSH keys of root and users, host keys, the machine
# id, shell histories, logs, cloud-init's record of this instance, package caches, and these scripts.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

if command -v dnf >/dev/null; then dnf clean all --quiet; else apt-get clean && rm -rf /var/lib/apt/lists/*; fi
rm -f /etc/ssh/ssh_host_* ~root/.ssh/authorized_keys /home/*/.ssh/authorized_keys
rm -f ~root/.*_history /home/*/.*_history ~root/.wget-hsts /home/*/.sudo_as_admin_successful
rm -rf ~root/.cache /home/*/.cache /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
if command -v cloud-init >/dev/null; then cloud-init clean --logs; fi
: >/etc/machine-id
if command -v journalctl >/dev/null; then journalctl --quiet --rotate --vacuum-time 1s 2>/dev/null || true; fi
find /var/log -type f -exec truncate --size 0 {} +
rm -rf /tmp/cache /var/tmp/* "$(readlink --canonicalize "$here/..")"
sync
