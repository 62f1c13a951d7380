#!/usr/bin/env bash
# SSH client and server. No host key stays: one that is baked into an image is everybody's.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" openssh-client openssh-server
rm -f /etc/ssh/ssh_host_*
