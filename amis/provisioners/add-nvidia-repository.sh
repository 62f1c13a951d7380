#!/usr/bin/env bash
# Add NVIDIA's repository for the driver and verify its signing key. Called by other provisioners.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
key_file=${nvidia_key_fingerprint: -8} key_file=${key_file,,}.pub
base=https://developer.download.nvidia.com/compute/cuda/repos

# shellcheck source=/dev/null
source /etc/os-release
case $ID-$VERSION_ID in
  ubuntu-*)
    [[ -e /etc/apt/sources.list.d/nvidia-cuda.list ]] && exit 0
    "$here/install-packages.sh" ca-certificates curl gpg
    key=$(mktemp)
    trap 'rm -f "$key"' EXIT
    curl --fail --silent --show-error --location --output "$key" \
      "$base/ubuntu${VERSION_ID//./}/$(uname --machine)/$key_file"
    found=$(gpg --show-keys --with-colons "$key" | awk -F : '$1 == "fpr" { print $10; exit }')
    if [[ $found != "$nvidia_key_fingerprint" ]]; then
      echo "NVIDIA's repository is signed by key $found, expected $nvidia_key_fingerprint" >&2
      exit 1
    fi
    gpg --dearmor --yes --output /usr/share/keyrings/nvidia-cuda.gpg "$key"
    echo "deb [signed-by=/usr/share/keyrings/nvidia-cuda.gpg] $base/ubuntu${VERSION_ID//./}/$(uname --machine)/ /" \
      >/etc/apt/sources.list.d/nvidia-cuda.list
    ;;
  *)
    echo "$ID $VERSION_ID is not supported: this recipe installs NVIDIA's driver on Ubuntu only. Install the driver yourself" >&2
    exit 1
    ;;
esac
