#!/usr/bin/env bash
# The agent of Systems Manager, by which one gets in without an open port. AWS's and Canonical's images have it already.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

if command -v dnf >/dev/null; then
  "$here/install-packages.sh" amazon-ssm-agent
  systemctl enable amazon-ssm-agent.service
elif ! snap list amazon-ssm-agent >/dev/null 2>&1; then
  command -v snap >/dev/null || { echo "the SSM agent is a snap on Ubuntu, and there is no snapd: name this in Packer's variable skip" >&2 && exit 1; }
  snap install amazon-ssm-agent --classic
fi
