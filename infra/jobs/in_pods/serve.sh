# Worker: run sshd as an ordinary user. It accepts only the keys of this job. On SIGTERM, sshd keeps running until the
# ranks have ended. Argument: the host of the first worker. sshd does not pass the container's environment to its
# sessions, so SetEnv does that: ranks need the variables that the image and device plugins set.
awk 'BEGIN {
  own = "^(HOME|HOSTNAME|K_MPI_JOB_ROLE|LOGNAME|MAIL|OLDPWD|PWD|SHELL|SHLVL|TERM|USER|_|KUBERNETES_.*|SSH_.*)$"
  printf "SetEnv"
  for (name in ENVIRON) {
    value = ENVIRON[name]
    if (name ~ own || name !~ /^[A-Za-z_][A-Za-z0-9_]*$/ || value ~ /\n/) continue
    gsub(/["\\]/, "\\\\&", value)
    printf " %s=\"%s\"", name, value
  }
  print ""
}' > /tmp/sshd_config
/usr/sbin/sshd -D -e -f /tmp/sshd_config \
  -o Port=2222 -o HostKey="$HOME/.ssh/id_rsa" -o AuthorizedKeysFile="$HOME/.ssh/authorized_keys" \
  -o PidFile=none -o StrictModes=no -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \
  -o MaxStartups=1000 -o ClientAliveInterval=10 -o ClientAliveCountMax=6 -o LogLevel=ERROR &
command=$! stopping=
trap 'stopping=1' TERM INT
code=0
wait "$command" || code=$?
[ -n "$stopping" ] || exit "$code"
! command -v release_keys > /dev/null || release_keys  # before the ranks end: they may take longer than Kubernetes allows
# The launcher watches this file on the first worker, and then tells the ranks of all workers to stop: without the ranks of
# this pod, they cannot continue. The name of a pod that is terminating is no longer in DNS, so the first worker writes the
# file itself.
case $1 in
  "${HOSTNAME:-none}".*) : > /tmp/stopping ;;
  *) /tmp/pod-ssh "$1" ': > /tmp/stopping' & ;;
esac
/tmp/stop-ranks told || true
/tmp/stop-ranks wait
