# A worker: sshd for the launcher's key and nobody else's, as an ordinary user.
# Sessions get what the container got at its start; sshd gives them nothing of its own environment by itself.
set -eu
umask 077
printf '* %s\n' "$(cat "$HOME/.ssh/id_rsa.pub")" > /tmp/known_hosts
settings=""
for name in PATH LD_LIBRARY_PATH OPAL_PREFIX NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES GPUMPI_NODE; do
  eval "value=\${$name-}"
  [ -z "$value" ] || settings="$settings $name=\"$value\""
done
exec /usr/sbin/sshd -D -e -f /dev/null \
  -o Port=2222 -o HostKey="$HOME/.ssh/id_rsa" -o AuthorizedKeysFile="$HOME/.ssh/authorized_keys" \
  -o PidFile=none -o StrictModes=no -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \
  -o MaxStartups=1000 -o ClientAliveInterval=5 -o ClientAliveCountMax=3 -o LogLevel=ERROR \
  -o SetEnv="${settings# }"
