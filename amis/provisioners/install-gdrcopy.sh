#!/usr/bin/env bash
# GDRCopy: the CPU writes directly into GPU memory, the fastest path for small messages. Install it only where the
# base AMI lacks it. DKMS builds its kernel module, for which the driver's sources must be in /usr/src/nvidia-*.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
folder=/opt/gdrcopy

"$here/check-gdrcopy.sh" 2>/dev/null && exit 0
kernel=$(uname --kernel-release)
fail() {
  echo "GDRCopy cannot be built: $1. Skip it: -var 'skip={\"install-gdrcopy\":\"REASON\"}'; Open MPI and NCCL work without it" >&2
  exit 1
}
[[ -d /lib/modules/$kernel/build ]] || fail "the headers of kernel $kernel are missing"
compgen -G "/usr/src/nvidia-*" >/dev/null || fail "/usr/src/nvidia-* with the driver's sources is missing"
"$here/install-packages.sh" build-essential dkms
work=$(mktemp --directory --tmpdir=/var/tmp)
trap 'rm -rf "$work"' EXIT
"$here/fetch-source.sh" "https://github.com/NVIDIA/gdrcopy/archive/v$gdrcopy_version.tar.gz" "$gdrcopy_sha256" "$work/source"
tar --extract --file "$work/source" --directory "$work" --strip-components 1
make --silent --directory "$work" prefix="$folder" CUDA=/usr/local/cuda lib lib_install
echo "$folder/lib" >/etc/ld.so.conf.d/gdrcopy.conf
ldconfig

name=gdrdrv module=/usr/src/gdrdrv-$gdrcopy_version
rm -rf "$module"
cp --recursive "$work/src/gdrdrv" "$module"
cp --recursive "$work/packages/dkms.conf" "$work/scripts" "$module/"
place=$(awk '/^MODULE_SUBDIR/ { print $3 }' "$module/Makefile") # as GDRCopy's packages do
sed --in-place "s|@FULL_VERSION@|$gdrcopy_version|; s|@VERSION@|$gdrcopy_version|; s|@MODULE_LOCATION@|$place|" "$module/dkms.conf"
dkms add -m "$name" -v "$gdrcopy_version" 2>/dev/null || true # fails if already added
dkms build -m "$name" -v "$gdrcopy_version" || fail "its module does not compile for kernel $kernel"
dkms install -m "$name" -v "$gdrcopy_version" --force
echo "$name" | "$here/put-file.sh" /etc/modules-load.d/gdrdrv.conf
echo 'KERNEL=="gdrdrv", MODE="0666"' | "$here/put-file.sh" /etc/udev/rules.d/90-gdrdrv.rules
"$here/check-gdrcopy.sh"
