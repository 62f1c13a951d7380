#!/usr/bin/env bash
# Configure SSH between the pods of a job as MPI Operator expects it: the job's key pair is mounted at ~/.ssh, the
# user's sshd listens on 2222 without privileges, root's on 22. The job's key is also the host key, so no known_hosts
# is needed.
#   LOGIN_USER   the user, mpiuser by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
user=${LOGIN_USER:-mpiuser}
home=$(getent passwd "$user" | cut -d : -f 6) roots=~root

"$here/install-packages.sh" openssh-client openssh-server
"$here/install-tini.sh"
install -m 0755 "$here/../files/known-pods.sh" /usr/local/bin/known-pods
install -m 0755 "$here/../files/job-entrypoint.sh" /usr/local/bin/job-entrypoint
sed "s/@user@/$user/" "$here/../files/pod_ssh_config" >/etc/ssh/ssh_config.d/pod.conf
sed "s|@home@|$roots|; s/@port@/22/" "$here/../files/pod_sshd_config" >/etc/ssh/sshd_config
sed "s|@home@|$home|; s/@port@/2222/" "$here/../files/pod_sshd_config" >"$home/.sshd_config"
chown "$user:" "$home/.sshd_config"
install -d -m 0755 /run/sshd # root's sshd needs it; in a container there is no systemd to create it
install -d -m 0700 -o "$user" -g "$user" "$home/.ssh"
install -d -m 0700 "$roots/.ssh"
