#!/usr/bin/env bash
# CUDA's compiler, libraries and headers in /usr/local/cuda.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

series=${cuda_version%.*}
if [[ ! -x /usr/local/cuda-$series/bin/nvcc ]]; then
  "$here/add-nvidia-repository.sh"
  "$here/install-packages.sh" "cuda-toolkit-${series//./-}"
fi
ln --force --symbolic --no-dereference "/usr/local/cuda-$series" /usr/local/cuda
echo /usr/local/cuda/lib64 >/etc/ld.so.conf.d/cuda.conf
# shellcheck disable=SC2016 # expanded at login
echo 'PATH=$PATH:/usr/local/cuda/bin' >/etc/profile.d/cuda.sh
ldconfig
