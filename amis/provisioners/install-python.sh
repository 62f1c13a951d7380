#!/usr/bin/env bash
# The distribution's Python with numpy, `python` its name too, and pip for what a job brings itself.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/install-packages.sh" ca-certificates python-is-python3 python3 python3-numpy python3-pip
