#!/usr/bin/env bash
# RDMA and GPU buffers are locked in memory: https://www.open-mpi.org/faq/?category=openfabrics#ib-locked-pages
# Services hand it on to what they start, sshd's logins too. A container that may not raise it keeps what it has.
set -o errexit -o nounset -o pipefail

install -d -m 0755 /etc/systemd/system.conf.d
cat >/etc/systemd/system.conf.d/50-gpumpi.conf <<'END'
[Manager]
DefaultLimitMEMLOCK=infinity
END
