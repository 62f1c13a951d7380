# Launcher: wait until every worker has a DNS name, which exists once the worker's sshd accepts connections, then run a command.
# Set these variables here, because the values that mpi-operator appends to the pod's environment override earlier ones.
export OMPI_MCA_plm_rsh_agent=/tmp/mpi-ssh PRTE_MCA_plm_ssh_agent=/tmp/mpi-ssh
export I_MPI_HYDRA_BOOTSTRAP_EXEC=/tmp/mpi-ssh HYDRA_LAUNCHER_EXEC=/tmp/mpi-ssh
knows_all() {
  [ "$(/tmp/mpi-ssh "$1" cat "$known_hosts" 2> /dev/null)" = "$(cat "$known_hosts")" ]
}
trap 'exit 143' TERM INT
hosts=$(sed 's/[ :].*//' /etc/mpi/hostfile)
for host in $hosts; do
  wait_for_name "$host"
  echo "$host $(getent hosts "$host" | awk '{ print $1; exit }')"  # the name of a pod that ends is no longer in DNS
done > /tmp/addresses
if [ "$known_hosts" != /tmp/known_hosts ]; then  # each pod has its own keys; workers also start ranks on each other
  for host in $hosts; do
    wait_for "$host to know the others' keys" knows_all "$host"
  done
  rm -f /tmp/connections/*
fi
# A worker that ends writes /tmp/stopping on the first worker. Remove the file of an earlier attempt before the ranks start:
# later, a worker of this attempt may already have written it.
read -r first _ < /tmp/addresses
/tmp/pod-ssh "$first" 'rm -f /tmp/stopping' < /dev/null || true
"$@" &
command=$! stopping=
# If this pod or a worker is terminated, tell the ranks of all workers to stop, wait until they have ended, then end the command.
stop() {
  [ -z "$stopping" ] || return 0
  stopping=1
  ! command -v release_keys > /dev/null || release_keys
  (
    while read -r host address; do
      ATTEMPTS=1 CONNECT_SECONDS=5 /tmp/pod-ssh -o HostKeyAlias="[$host]:2222" "$address" /tmp/stop-ranks told < /dev/null &
    done < /tmp/addresses
    wait
    case $(readlink "/proc/$command/exe") in  # mpirun of Intel MPI is a shell script
      *sh) kill -TERM $(cat "/proc/$command/task/$command/children") ;;
      *) kill -TERM "$command" 2> /dev/null ;;
    esac
  ) &
}
trap stop TERM INT USR1
watch='until [ -e /tmp/stopping ]; do sleep 1; echo; done'  # ends when the connection does
read -r self _ < /proc/self/stat
(/tmp/pod-ssh "$first" "$watch" > /dev/null 2>&1 < /dev/null && kill -USR1 "$self") &
wait_for_command
[ -z "$stopping" ] || exit 143
[ "$code" -eq 0 ] || exit "$code"
# Open MPI 5 may exit with 0 after it has lost a worker and all of its ranks (https://github.com/openpmix/prrte/pull/2603).
# A connection that is still open removes its file when it closes after the command. If a connection broke, or if Open MPI
# killed it when it gave up, its file remains.
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
