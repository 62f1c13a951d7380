#!/usr/bin/env bash
# The user that jobs run as.
#   LOGIN_USER   its name, mpiuser by default
#   LOGIN_UID    its number, 1000 by default
set -o errexit -o nounset -o pipefail
user=${LOGIN_USER:-mpiuser} number=${LOGIN_UID:-1000}

if ! id "$user" >/dev/null 2>&1; then
  if other=$(getent passwd "$number"); then
    echo "the number $number is to be $user's, and ${other%%:*} has it; name another in LOGIN_UID, or give ${other%%:*} another" >&2
    exit 1
  fi
  useradd --create-home --uid "$number" --user-group --shell /bin/bash "$user"
fi
# useradd leaves "!", which means locked, and sshd without PAM lets no locked user in, not even by key. "*" is no password either.
[[ $(getent shadow "$user" | cut -d: -f2) == '*' ]] || usermod --password '*' "$user" # it writes the date, too
