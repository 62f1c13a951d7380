#!/usr/bin/env bash
# The last: what must not be the same on all machines of an image, or is nobody's business. Ours and root's keys, host keys, the
# machine's id, shell histories, logs, what cloud-init knows of this instance, package caches, the recipe itself.
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
