# A launcher: waits until every worker has a name, which it has once its sshd answers, then becomes the command.
# The settings of ssh are made here because mpi-operator's own come last in the pod.
set -eu
umask 077
printf '* %s\n' "$(cat "$HOME/.ssh/id_rsa.pub")" > /tmp/known_hosts
ssh="-p 2222 -i $HOME/.ssh/id_rsa -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/tmp/known_hosts"
ssh="$ssh -o ConnectionAttempts=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o LogLevel=ERROR"
export OMPI_MCA_plm_rsh_args="$ssh" PRTE_MCA_plm_ssh_args="$ssh"
export I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS="$ssh" HYDRA_LAUNCH_EXTRA_ARGS="$ssh"
for host in $(sed 's/[ :].*//' /etc/mpi/hostfile); do
  tries=0
  until getent hosts "$host" > /dev/null; do
    tries=$((tries + 1))
    [ $((tries % 150)) -ne 15 ] || echo "waiting for $host" >&2
    sleep 0.2
  done
done
exec "$@"
