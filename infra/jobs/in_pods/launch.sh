# Launcher: wait until every worker has a DNS name, which it gets once its sshd accepts connections, then run a command.
# Set these variables here, because the values that mpi-operator appends to the pod's environment override earlier ones.
export OMPI_MCA_plm_rsh_agent=/tmp/mpi-ssh PRTE_MCA_plm_ssh_agent=/tmp/mpi-ssh
export I_MPI_HYDRA_BOOTSTRAP_EXEC=/tmp/mpi-ssh HYDRA_LAUNCHER_EXEC=/tmp/mpi-ssh
knows_all() {
  [ "$(/tmp/mpi-ssh "$1" cat "$known_hosts" 2> /dev/null)" = "$(cat "$known_hosts")" ]
}
hosts=$(sed 's/[ :].*//' /etc/mpi/hostfile)
for host in $hosts; do
  wait_for_name "$host"
done
if [ "$known_hosts" != /tmp/known_hosts ]; then  # each pod has its own keys; workers also start ranks on each other
  for host in $hosts; do
    wait_for "$host to know the others' keys" knows_all "$host"
  done
  rm -f /tmp/connections/*
fi
"$@" &
command=$!
trap 'kill -TERM "$command"' TERM INT
code=0
wait "$command" || code=$?
while kill -0 "$command" 2> /dev/null; do  # a signal interrupted `wait`; the command still runs
  code=0
  wait "$command" || code=$?
done
[ "$code" -eq 0 ] || exit "$code"
# Open MPI 5 may exit with 0 after it lost a worker and all of its ranks (https://github.com/openpmix/prrte/pull/2603).
# A connection that is still open removes its file when it closes after the command. If a connection broke, or if
# Open MPI killed it to give up, its file remains.
broken() {
  for file in /tmp/connections/*; do
    [ ! -e "$file" ] || kill -0 "${file##*/}" 2> /dev/null || return 0
  done
  return 1
}
tries=0
until [ -z "$(ls /tmp/connections)" ] || broken || [ "$tries" -ge 100 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
broken || exit 0
echo "launcher: a worker was lost while the ranks ran: this attempt failed, although $1 says that it did not" >&2
exit 1
