#!/usr/bin/env bash
# SSH between the pods of a job, as the MPI operator expects it: the job's key pair is mounted at ~/.ssh, the user's sshd listens
# on 2222 without any privilege, root's on 22. The job's key is the host key too, so hosts are known without a known_hosts file.
#   LOGIN_USER   whose, mpiuser by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
user=${LOGIN_USER:-mpiuser}
home=$(getent passwd "$user" | cut -d : -f 6) roots=~root

"$here/install-packages.sh" openssh-client openssh-server tini
install -m 0755 "$here/../files/known-pods.sh" /usr/local/bin/known-pods
install -m 0755 "$here/../files/job-entrypoint.sh" /usr/local/bin/job-entrypoint
sed "s/@user@/$user/" "$here/../files/pod_ssh_config" >/etc/ssh/ssh_config.d/pod.conf
sed "s|@home@|$roots|; s/@port@/22/" "$here/../files/pod_sshd_config" >/etc/ssh/sshd_config
sed "s|@home@|$home|; s/@port@/2222/" "$here/../files/pod_sshd_config" >"$home/.sshd_config"
chown "$user:" "$home/.sshd_config"
install -d -m 0755 /run/sshd # only root's sshd needs it; no service manager makes it in a container
install -d -m 0700 -o "$user" -g "$user" "$home/.ssh"
install -d -m 0700 "$roots/.ssh"
