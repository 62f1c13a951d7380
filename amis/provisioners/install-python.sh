#!/usr/bin/env bash
# The distribution's Python, also as `python`, with numpy, and pip for packages that jobs install.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" ca-certificates python-is-python3 python3 python3-numpy python3-pip
