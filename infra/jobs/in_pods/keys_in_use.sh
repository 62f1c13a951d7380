# Delete the job's SSH keys from the volume when the last pod that uses them ends. keys_on_volume.sh has noted this pod.
read -r user < "$HOME/.ssh/user"
touch "$user" 2> /dev/null || true  # this container may have ended, and started again
release_keys() {
  [ -z "${released:-}" ] || return 0  # the trap runs it again: by then, a new run of the job may use the folder
  released=1
  rm -f "$user" || true
  rmdir "${user%/*}" 2> /dev/null || return 0
  rm -r "${user%/users/*}" || true
}
trap 'release_keys; ! command -v finish_log > /dev/null || finish_log' EXIT
