#!/usr/bin/env bash
# Starts the pod's command. A launcher first waits until the names in its hostfile resolve: a pod's DNS record may
# appear seconds after the pod. After 60 s, the launcher starts anyway, and MPI names the missing host.
set -o errexit -o nounset -o pipefail
hostfile=${JOB_HOSTFILE:-/etc/mpi/hostfile} limit=$((SECONDS + 60))

if [[ ${K_MPI_JOB_ROLE:-} == launcher && -r $hostfile ]]; then
  # Open MPI writes "host slots=2"; MPICH and Intel MPI write "host:2".
  while read -r host; do
    until getent hosts "$host" >/dev/null || ((SECONDS > limit)); do sleep 0.2; done
  done < <(sed -E 's/[: ].*//; /^$/d' "$hostfile")
fi
exec "$@"
