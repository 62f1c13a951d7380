#!/usr/bin/env bash
# Configure SSH between the nodes of an EC2 cluster. The node keys, which the join service maintains, grant access
# only to members of group gpumpi, not to root or an administrator.
#   LOGIN_USER   the user to add to the group, mpiuser by default
set -o errexit -o nounset -o pipefail
user=${LOGIN_USER:-mpiuser}

getent group gpumpi >/dev/null || groupadd --system gpumpi
usermod --append --groups gpumpi "$user"
install -d -m 0755 /etc/gpumpi /etc/ssh/sshd_config.d
cat >/etc/ssh/sshd_config.d/50-gpumpi.conf <<'END'
PasswordAuthentication no
PermitRootLogin no
# mpirun opens a connection to every node at the same time.
MaxStartups 100:30:300
MaxSessions 100
Match Group gpumpi
    AuthorizedKeysFile .ssh/authorized_keys /etc/gpumpi/authorized_keys
Match all
END
# Reject hosts that the join service does not list: a prompt would make mpirun hang.
cat >/etc/ssh/ssh_config.d/50-gpumpi.conf <<'END'
Match localuser !root exec "id --name --groups | grep --quiet --word-regexp gpumpi"
    StrictHostKeyChecking yes
    BatchMode yes
    ServerAliveInterval 30
END
