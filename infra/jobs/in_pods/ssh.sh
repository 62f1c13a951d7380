# Write /tmp/mpi-ssh, the program with which the pods of a job connect to each other. It contains the ssh options: when
# a worker starts daemons on other workers, Open MPI 5 passes on the name of a program unchanged, but drops everything
# after the first "=" in options. A connection that breaks or is killed leaves its file in /tmp/connections.
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
cat > /tmp/mpi-ssh <<END
#!/bin/sh
: > /tmp/connections/\$\$
code=0
ssh -p 2222 -i "$HOME/.ssh/id_rsa" -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile="$known_hosts" \
  -o ConnectionAttempts=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=6 -o LogLevel=ERROR "\$@" || code=\$?
[ "\$code" -eq 255 ] || rm /tmp/connections/\$\$
exit "\$code"
END
chmod +x /tmp/mpi-ssh
