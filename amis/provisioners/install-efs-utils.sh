#!/usr/bin/env bash
# Install `mount -t efs` with TLS and IAM. EKS nodes do not need this mount helper: the CSI driver has its own.
# https://docs.aws.amazon.com/efs/latest/ug/installing-amazon-efs-utils.html
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

if command -v dnf >/dev/null; then
  "$here/install-packages.sh" amazon-efs-utils
  exit 0
fi
[[ $(dpkg-query --show --showformat='${Version}' amazon-efs-utils 2>/dev/null) == "$efs_utils_version"* ]] && exit 0
"$here/install-packages.sh" binutils build-essential ca-certificates cargo cmake gettext git golang-go libssl-dev perl pkg-config rustc
work=$(mktemp --directory --tmpdir=/var/tmp)
trap 'rm -rf "$work"' EXIT
# The commit hash is a checksum of the source.
git -C "$work" init --quiet
git -C "$work" fetch --quiet --depth 1 https://github.com/aws/efs-utils "$efs_utils_commit"
git -C "$work" checkout --quiet FETCH_HEAD
(cd "$work" && ./build-deb.sh >/dev/null)
DEBIAN_FRONTEND=noninteractive apt-get install --option DPkg::Lock::Timeout=300 --yes --quiet --quiet "$work"/build/amazon-efs-utils*.deb
