#!/usr/bin/env bash
# Install distribution packages without recommended ones. Called by other provisioners. Names are those of Debian and
# Ubuntu; on Amazon Linux, the script installs their counterparts, but never a kernel, because the drivers are built for the
# current one.
#   install-packages.sh NAME...
set -o errexit -o nounset -o pipefail

if command -v dnf >/dev/null; then
  declare -A counterparts=(
    [build-essential]="gcc gcc-c++ make" [g++]=gcc-c++ [libc6-dev]=glibc-devel [libnuma-dev]=numactl-devel
    [openssh-client]=openssh-clients [xz-utils]=xz [zlib1g-dev]=zlib-devel [python-is-python3]=python3 [curl]=curl-minimal [gpg]=gnupg2-minimal
  )
  names=()
  for name in "$@"; do
    # dnf does not install curl-minimal next to curl, which AWS's Deep Learning Containers have.
    if [[ $name == curl || $name == gpg ]] && command -v "$name" >/dev/null; then continue; fi
    read -r -a found <<<"${counterparts[$name]:-$name}"
    names+=("${found[@]}")
  done
  [[ ${#names[@]} -gt 0 ]] || exit 0
  rpm --query --quiet "${names[@]}" || dnf install --assumeyes --quiet --setopt=install_weak_deps=False --exclude='kernel*' "${names[@]}"
  exit 0
fi

missing=()
for name in "$@"; do
  dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null | grep --quiet --line-regexp installed || missing+=("$name")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

export DEBIAN_FRONTEND=noninteractive
# Ubuntu updates its package lists after a boot. `apt-get install` can wait for the lock, but `apt-get update` cannot.
for attempt in {1..150}; do
  if printed=$(apt-get update --quiet --quiet 2>&1); then break; fi
  if [[ $printed != *"Could not get lock"* || $attempt -eq 150 ]]; then
    echo "$printed" >&2
    exit 1
  fi
  sleep 2
done
apt-get install --option DPkg::Lock::Timeout=300 --yes --quiet --quiet --no-install-recommends "${missing[@]}" >/dev/null # errors go to stderr
