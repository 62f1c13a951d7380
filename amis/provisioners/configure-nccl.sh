#!/usr/bin/env bash
# Write /etc/nccl.conf, which contains NCCL's defaults for every process. Variables set by jobs override this file.
# This file replaces the one in AWS's images, which sets NCCL_DEBUG=INFO.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")

"$here/put-file.sh" /etc/nccl.conf <"$here/../files/nccl.conf"
