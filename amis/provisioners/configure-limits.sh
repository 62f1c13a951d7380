#!/usr/bin/env bash
# Unlimited locked memory, for RDMA and GPU buffers: https://www.open-mpi.org/faq/?category=openfabrics#ib-locked-pages
# systemd services pass the limit on, and so do sshd logins. A container that may not raise its limit keeps it.
set -o errexit -o nounset -o pipefail

install -d -m 0755 /etc/systemd/system.conf.d
cat >/etc/systemd/system.conf.d/50-gpumpi.conf <<'END'
[Manager]
DefaultLimitMEMLOCK=infinity
END
