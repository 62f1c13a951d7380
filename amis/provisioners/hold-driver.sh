#!/usr/bin/env bash
# Keep the versions of the kernel and of the NVIDIA driver in the base AMI: an automatic upgrade of one breaks the other.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
pattern='^(linux-(aws|image|headers|modules)|kernel|.*nvidia|libcuda|cuda-drivers|efa)'

if command -v dnf >/dev/null; then
  "$here/install-packages.sh" python3-dnf-plugin-versionlock
  mapfile -t names < <(rpm --query --all --queryformat '%{NAME}\n' | grep --extended-regexp "$pattern" | sort --unique)
  [[ ${#names[@]} -eq 0 ]] || dnf versionlock add --quiet "${names[@]}"
else
  mapfile -t names < <(dpkg-query --show --showformat='${Package}\n' | grep --extended-regexp "$pattern" | sort --unique)
  [[ ${#names[@]} -eq 0 ]] || apt-mark hold "${names[@]}" >/dev/null
fi
echo "held: ${names[*]:-nothing, no kernel or driver package is installed}"
