# Write /tmp/pod-ssh, which connects to another pod of the job, and /tmp/mpi-ssh, with which MPI starts ranks on other pods.
# They contain the ssh options: when a worker starts daemons on other workers, Open MPI 5 passes on the name of a program
# unchanged, but drops everything after the first "=" in options. A connection of /tmp/mpi-ssh that breaks or is killed
# leaves its file in /tmp/connections. Where a network policy drops packets, TCP alone would wait two minutes per attempt.
set -eu
umask 077
for program in /usr/sbin/sshd ssh awk sed getent; do
  command -v "$program" > /dev/null || refuse "the image has no $program, without which the launcher starts no rank"
done
id -un > /dev/null 2>&1 || refuse "the image has no user with the id $(id -u), so sshd would reject every login"
known_hosts="$HOME/.ssh/known_hosts"
if [ ! -e "$known_hosts" ]; then  # all pods share one key pair, which is also their host key
  known_hosts=/tmp/known_hosts
  printf '* %s\n' "$(cat "$HOME/.ssh/id_rsa.pub")" > "$known_hosts"
fi
rm -rf /tmp/connections
mkdir /tmp/connections
cat > /tmp/pod-ssh <<END
#!/bin/sh
exec ssh -p 2222 -i "$HOME/.ssh/id_rsa" -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile="$known_hosts" \
  -o ConnectionAttempts=\${ATTEMPTS:-10} -o ConnectTimeout=\${CONNECT_SECONDS:-30} \
  -o ServerAliveInterval=10 -o ServerAliveCountMax=6 -o LogLevel=ERROR "\$@"
END
cat > /tmp/mpi-ssh <<END
#!/bin/sh
: > /tmp/connections/\$\$
code=0
/tmp/pod-ssh "\$@" || code=\$?
[ "\$code" -eq 255 ] || rm /tmp/connections/\$\$
exit "\$code"
END
chmod +x /tmp/pod-ssh /tmp/mpi-ssh
