#!/usr/bin/env bash
# AWS Systems Manager Agent, for logins without an open port. Amazon's and Canonical's images already have it.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

if command -v dnf >/dev/null; then
  "$here/install-packages.sh" amazon-ssm-agent
  systemctl enable amazon-ssm-agent.service
elif ! snap list amazon-ssm-agent >/dev/null 2>&1; then
  command -v snap >/dev/null || { echo "snapd is missing, and on Ubuntu the SSM agent is a snap. Add install-ssm-agent to Packer's variable skip" >&2 && exit 1; }
  snap install amazon-ssm-agent --classic
fi
