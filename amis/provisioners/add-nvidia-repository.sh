#!/usr/bin/env bash
# Add NVIDIA's repository for driver, CUDA and NCCL and verify its signing key. Called by other provisioners.
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
    apt-get update --quiet --quiet
    ;;
  amzn-2023)
    [[ -e /etc/yum.repos.d/cuda-amzn2023.repo ]] || curl --fail --silent --show-error --location \
      --output /etc/yum.repos.d/cuda-amzn2023.repo "$base/amzn2023/$(uname --machine)/cuda-amzn2023.repo"
    ;;
  *)
    echo "$ID $VERSION_ID is not supported: NVIDIA has packages for Ubuntu and Amazon Linux 2023. Add the steps that need them" \
      "to Packer's variable skip" >&2
    exit 1
    ;;
esac
