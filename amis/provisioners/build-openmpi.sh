#!/usr/bin/env bash
# Compile a CUDA-aware Open MPI with the installed transports: libfabric of the EFA installer, UCX in /opt/ucx.
#   OPENMPI_SERIES   4 (default) or 5
#   OPENMPI_ORIGIN   upstream (default), or debian: the nearest version whose source is in Debian's archive
#   OPENMPI_FLAGS    more options for configure, including CFLAGS
#   DEBIAN_MIRROR    URL of Debian's archive
#   BUILD_CACHE      folder for compiled files; none by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
mirror=${DEBIAN_MIRROR:-https://deb.debian.org/debian}

case ${OPENMPI_SERIES:-4}-${OPENMPI_ORIGIN:-upstream} in
  4-upstream) version=$openmpi4_source_version sha256=$openmpi4_source_sha256 ;;
  5-upstream) version=$openmpi5_source_version sha256=$openmpi5_source_sha256 ;;
  4-debian) version=$openmpi4_debian_version sha256=$openmpi4_debian_sha256 ;;
  5-debian) version=$openmpi5_debian_version sha256=$openmpi5_debian_sha256 ;;
  *) echo "OPENMPI_SERIES-OPENMPI_ORIGIN is \"$OPENMPI_SERIES-$OPENMPI_ORIGIN\"; choose 4 or 5, upstream or debian" >&2 && exit 2 ;;
esac
case ${OPENMPI_ORIGIN:-upstream} in
  upstream) url=https://download.open-mpi.org/release/open-mpi/v${version%.*}/openmpi-$version.tar.bz2 ;;
  debian) url=$mirror/pool/main/o/openmpi/openmpi_$version.orig.tar.xz ;;
esac
folder=/opt/openmpi-$version

cuda=/usr/local/cuda
[[ -e $cuda/include/cuda.h ]] || cuda=/opt/cuda-headers
if [[ ! -e $cuda/include/cuda.h ]]; then
  echo "neither /usr/local/cuda nor /opt/cuda-headers has include/cuda.h, and Open MPI shall be CUDA-aware: run" \
    "install-cuda-headers.sh before" >&2
  exit 1
fi
options=("--prefix=$folder" "--with-cuda=$cuda" "--with-cuda-libdir=$cuda/lib64/stubs" --with-hwloc=internal --with-libevent=internal
  --with-pmix=internal --enable-mpirun-prefix-by-default --disable-dependency-tracking --without-verbs)
if [[ -d /opt/amazon/efa ]]; then options+=(--with-ofi=/opt/amazon/efa); else options+=(--without-ofi); fi
if [[ -d /opt/ucx ]]; then options+=(--with-ucx=/opt/ucx); else options+=(--without-ucx); fi
read -r -a more <<<"${OPENMPI_FLAGS:-}"
options+=("${more[@]}")

# Reuse files that were compiled from this source, with these options, on this system.
system=$(grep --extended-regexp '^(ID|VERSION_ID)=' /etc/os-release)
with=$(readlink --canonicalize "$cuda" /opt/ucx && cat /opt/amazon/efa_installed_packages 2>/dev/null || true)
key=$(echo "$sha256 ${options[*]} $system $(uname --machine) $with" | sha256sum | cut -c 1-16)
kept=${BUILD_CACHE:-}/openmpi-$version-$key.tar.gz

if [[ $(cat "$folder/.complete" 2>/dev/null) != "$key" ]]; then
  rm -rf "$folder"
  if [[ -n ${BUILD_CACHE:-} && -e $kept ]]; then
    "$here/install-packages.sh" gcc libc6-dev # mpicc calls it
    tar --extract --gzip --file "$kept" --directory /opt
  else
    "$here/install-packages.sh" bzip2 ca-certificates curl g++ gcc libc6-dev make perl xz-utils zlib1g-dev
    work=$(mktemp --directory --tmpdir=/var/tmp)
    trap 'rm -rf "$work"' EXIT
    "$here/fetch-source.sh" "$url" "$sha256" "$work/source"
    mkdir "$work/openmpi"
    tar --extract --file "$work/source" --directory "$work/openmpi" --strip-components 1
    cd "$work/openmpi"
    run() { "$@" >"$work/log" 2>&1 || { tail --lines 30 "$work/log" >&2 && exit 1; }; }
    echo "configuring Open MPI $version: ${options[*]}"
    run ./configure "${options[@]}"
    echo "compiling Open MPI $version with $(nproc) processors"
    run make --silent --jobs="$(nproc)"
    run make --silent install
    if ! "$folder/bin/ompi_info" --parsable --all | grep mpi_built_with_cuda_support:value:true >/dev/null; then
      echo "Open MPI $version was compiled without CUDA, though $cuda was given; its config.log says why" >&2
      exit 1
    fi
    if [[ -n ${BUILD_CACHE:-} ]]; then
      mkdir -p "$BUILD_CACHE"
      tar --create --gzip --file "$kept.part" --directory /opt "openmpi-$version"
      mv "$kept.part" "$kept"
    fi
  fi
  echo "$key" >"$folder/.complete"
fi
"$here/register-mpi.sh" OpenMPI "$version" "$folder"
# Without a driver, Open MPI warns at every start. Silence the warning: the machine has no GPU.
parameters=$folder/etc/openmpi-mca-params.conf
case ${version%%.*} in
  4) quiet="opal_warn_on_missing_libcuda = 0" ;;
  *) quiet="mca_base_component_show_load_errors = none" ;;
esac
if ! modinfo nvidia >/dev/null 2>&1 && ! grep --quiet --no-messages --line-regexp "$quiet" "$parameters"; then
  echo "$quiet" >>"$parameters"
fi
