#!/usr/bin/env bash
# UCX with CUDA and GDRCopy, for transfers within a machine and where there is InfiniBand; on EFA libfabric carries.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
folder=/opt/ucx-$ucx_version

if [[ ! -e $folder/.complete ]]; then
  "$here/install-packages.sh" build-essential libnuma-dev
  work=$(mktemp --directory --tmpdir=/var/tmp)
  trap 'rm -rf "$work"' EXIT
  "$here/fetch-source.sh" "https://github.com/openucx/ucx/releases/download/v$ucx_version/ucx-$ucx_version.tar.gz" "$ucx_sha256" \
    "$work/source"
  tar --extract --file "$work/source" --directory "$work" --strip-components 1
  options=("--prefix=$folder" --with-cuda=/usr/local/cuda --enable-mt)
  if [[ -d /opt/gdrcopy ]]; then options+=(--with-gdrcopy=/opt/gdrcopy); fi
  cd "$work"
  rm -rf "$folder"
  ./contrib/configure-release --quiet "${options[@]}"
  make --silent --jobs="$(nproc)"
  make --silent install
  touch "$folder/.complete"
fi
ln --force --symbolic --no-dereference "$folder" /opt/ucx
echo /opt/ucx/lib >/etc/ld.so.conf.d/ucx.conf
ldconfig
