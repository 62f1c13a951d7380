#!/usr/bin/env bash
# Write /etc/nccl.conf, the defaults of NCCL in every process. The variables that jobs set override it. AWS's images have
# one with NCCL_DEBUG=INFO.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/put-file.sh" /etc/nccl.conf <"$here/../files/nccl.conf"
