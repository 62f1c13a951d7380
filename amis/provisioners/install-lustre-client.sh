#!/usr/bin/env bash
# Install the client for FSx for Lustre (`mount -t lustre`). Its kernel module must match the kernel, and AWS publishes
# modules some time after a kernel. Without a matching module, the AMI gets no client, and nodes that should mount a
# Lustre file system report this. https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html, read
# 2026-11-23. NOT VERIFIED by an installation: neither the repository nor its key is reachable.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
marker=/etc/gpumpi/no-lustre-client
list=/etc/apt/sources.list.d/fsx-lustre.list

command -v mount.lustre >/dev/null && exit 0
if command -v dnf >/dev/null; then
  package=lustre-client
else
  keyring=/usr/share/keyrings/fsx-lustre.asc
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  "$here/fetch-file.sh" https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc "$keyring"
  echo "deb [signed-by=$keyring] https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu $codename main" >"$list"
  package=lustre-client-modules-$(uname --kernel-release)
fi
if "$here/install-packages.sh" "$package"; then
  rm -f "$marker"
else
  echo "warning: no Lustre client for kernel $(uname --kernel-release); this AMI cannot mount FSx for Lustre" >&2
  rm -f "$list" # apt-get update fails in all later steps if AWS has no packages for this release of Ubuntu
  install -D -m 0644 /dev/null "$marker"
fi
