#!/usr/bin/env bash
# Write /etc/gpumpi/manifest.json: provisioners that ran or were skipped, pinned versions and checksums, all packages.
#   NODE_KIND      ec2 or eks
#   SOURCE_IMAGE   name of the source AMI
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

if command -v dnf >/dev/null; then
  packages=(rpm --query --all --queryformat '%{NAME}\t%{VERSION}-%{RELEASE}\n')
else
  # shellcheck disable=SC2016 # dpkg expands these
  packages=(dpkg-query --show --showformat '${Package}\t${Version}\n')
fi
"${packages[@]}" | sort | python3 "$here/../files/manifest.py" "$here/.." >/etc/gpumpi/manifest.json.part
mv /etc/gpumpi/manifest.json.part /etc/gpumpi/manifest.json
chmod 0644 /etc/gpumpi/manifest.json
