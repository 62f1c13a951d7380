#!/usr/bin/env bash
# Create the user as which jobs run.
#   LOGIN_USER   user name, mpiuser by default
#   LOGIN_UID    user id, 1000 by default
set -o errexit -o nounset -o pipefail
user=${LOGIN_USER:-mpiuser} number=${LOGIN_UID:-1000}

if ! id "$user" >/dev/null 2>&1; then
  if other=$(getent passwd "$number"); then
    echo "user id $number, wanted for $user, belongs to ${other%%:*}. Set another LOGIN_UID, or change the id of ${other%%:*}" >&2
    exit 1
  fi
  useradd --create-home --uid "$number" --user-group --shell /bin/bash "$user"
fi
# useradd sets the password to "!" (locked), and sshd without PAM rejects locked users even with a key. "*" allows
# keys only.
[[ $(getent shadow "$user" | cut -d: -f2) == '*' ]] || usermod --password '*' "$user" # usermod also writes the date
