#!/usr/bin/env bash
# Install the check that runs on the first boot with a GPU. The check verifies what a build instance without a GPU cannot.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

install -D -m 0755 "$here/../files/first-boot-check.sh" /usr/local/lib/gpumpi/first-boot-check
install -D -m 0755 "$here/query-cuda-support.sh" /usr/local/lib/gpumpi/query-cuda-support
install -m 0644 "$here/../files/gpumpi-first-boot.service" /etc/systemd/system/gpumpi-first-boot.service
systemctl enable gpumpi-first-boot.service
