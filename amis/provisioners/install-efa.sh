#!/usr/bin/env bash
# AWS's EFA installer: the kernel module, libfabric and aws-ofi-nccl in /opt/amazon, huge pages.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

[[ -e /opt/amazon/efa_installed_packages ]] && grep --quiet "EFA installer version: $efa_version" /opt/amazon/efa_installed_packages && exit 0
work=$(mktemp --directory --tmpdir=/var/tmp)
trap 'rm -rf "$work"' EXIT
"$here/fetch-source.sh" "https://efa-installer.amazonaws.com/aws-efa-installer-$efa_version.tar.gz" "$efa_sha256" "$work/source"
tar --extract --file "$work/source" --directory "$work"
cd "$work/aws-efa-installer"
options=(--yes --skip-limit-conf) # configure-limits.sh sets the limits
if modinfo efa >/dev/null 2>&1 && command -v dnf >/dev/null; then options+=(--skip-kmod); fi # the EKS AMI has its own
./efa_installer.sh "${options[@]}"
