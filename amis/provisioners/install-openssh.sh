#!/usr/bin/env bash
# SSH client and server, without host keys: a key in an image would be shared by all machines started from it.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" openssh-client openssh-server
rm -f /etc/ssh/ssh_host_*
