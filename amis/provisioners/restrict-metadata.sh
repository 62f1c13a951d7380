#!/usr/bin/env bash
# Let only root connect to the instance metadata service, which returns the credentials of the node's role. Jobs of
# login users get none. A firewall rule is loaded at every boot before anyone can log in.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" nftables
install -D -m 0644 "$here/../files/metadata.nft" /etc/gpumpi/metadata.nft
install -m 0644 "$here/../files/gpumpi-metadata.service" /etc/systemd/system/gpumpi-metadata.service
systemctl enable gpumpi-metadata.service
[[ -d /run/systemd/system ]] || exit 0 # building an image: the rest needs a running machine
systemctl daemon-reload
systemctl start gpumpi-metadata.service # not restart, which would also restart sshd
