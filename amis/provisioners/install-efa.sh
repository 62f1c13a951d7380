#!/usr/bin/env bash
# AWS's EFA installer without its kernel module: libfabric, aws-ofi-nccl and Open MPI 5 in /opt/amazon, for base AMIs
# that have only the kernel module, such as EKS's. The signature is verified; AWS publishes the key's fingerprint.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
site=https://efa-installer.amazonaws.com

if [[ -x /opt/amazon/openmpi5/bin/mpirun ]] && "$here/check-efa.sh" >/dev/null 2>&1; then exit 0; fi
work=$(mktemp --directory --tmpdir=/var/tmp)
trap 'rm -rf "$work"' EXIT
"$here/fetch-signed.sh" "$site/aws-efa-installer-$efa_version.tar.gz" "$site/aws-efa-installer.key" "$efa_key_fingerprint" "$work/source"
tar --extract --file "$work/source" --directory "$work"
cd "$work/aws-efa-installer"
# --skip-kmod: the base AMI has the module for its kernel. configure-limits.sh sets the limits.
./efa_installer.sh --yes --skip-kmod --skip-limit-conf --mpi=openmpi5
