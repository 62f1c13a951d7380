#!/usr/bin/env bash
# Allow unlimited locked memory, for RDMA and GPU buffers: https://www.open-mpi.org/faq/?category=openfabrics#ib-locked-pages
# systemd services and sshd logins inherit the limit. A container that may not raise the limit keeps the current one.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

changed=$(printf '[Manager]\nDefaultLimitMEMLOCK=infinity\n' | "$here/put-file.sh" /etc/systemd/system.conf.d/50-gpumpi.conf)
# Apply the limit to services that start later, such as containerd on an on-premises node.
if [[ $changed && -d /run/systemd/system ]]; then systemctl daemon-reload; fi
