#!/usr/bin/env bash
# Last step of a job image's build: fail unless pods can use the image unchanged. Commands run as sshd would run them:
# as the user, without the image's environment.
#   LOGIN_USER       the user, mpiuser by default
#   PYTHON_MODULES   modules that must be importable, mpi4py by default
# shellcheck disable=SC2016 # the inner shell expands the commands
set -o errexit -o nounset -o pipefail
user=${LOGIN_USER:-mpiuser}
problems=()
over_ssh() { su "$user" --shell /bin/bash --command "cd && exec env -i HOME=\$HOME USER=$user PATH=/usr/local/bin:/usr/bin bash -c '$1'" 2>&1; }
expect() { # TITLE WANTED COMMAND
  local found
  found=$(over_ssh "$3") || true
  [[ $found == *"$2"* ]] || problems+=("$1: expected $2, found ${found:-nothing}")
}

[[ $(id --user "$user"):$(id --group "$user") == 1000:1000 ]] || problems+=("$user is $(id "$user"), not 1000:1000")
roots=~root
! compgen -G "$roots/.ssh/*" >/dev/null || problems+=("root has SSH keys, which all copies of the base image share")
telemetry=$(grep --files-with-matches --no-messages --recursive bash_telemetry /etc/bashrc /etc/profile.d /etc/skel ~root/.bashrc) || true
[[ -z $telemetry ]] || problems+=("${telemetry//$'\n'/, } starts telemetry in each shell")
[[ -z ${LD_LIBRARY_PATH:-} ]] || problems+=("LD_LIBRARY_PATH is set ($LD_LIBRARY_PATH): ranks over SSH would load other libraries than the launcher")
[[ -z ${OPAL_PREFIX:-} ]] || problems+=("OPAL_PREFIX is set ($OPAL_PREFIX): Open MPI 5 would look for its files there")

expect "mpirun on PATH" /opt/mpi/bin/mpirun 'readlink $(command -v mpirun)'
expect "mpirun in a login shell" /opt/mpi/bin/mpirun 'bash -lc "command -v mpirun"'
expect "Open MPI" /opt/amazon/openmpi5 'readlink -f /opt/mpi'
for module in ${PYTHON_MODULES:-mpi4py}; do
  expect "Python's module $module" "imported $module" "python3 -c \"import $module; print(\\\"imported\\\", \\\"$module\\\")\""
done
linked=$(over_ssh 'ldd /opt/nccl-tests/all_reduce_perf') || true
if [[ $linked == *"not found"* || $linked != *"libmpi.so.40 => /opt/mpi/"* ]]; then
  problems+=("all_reduce_perf does not find its libraries, or another MPI: $linked")
fi
expect "tini" "tini version" 'tini --version'
check='key=$(mktemp -u) && ssh-keygen -q -t ecdsa -N "" -f $key && /usr/sbin/sshd -t -f ~/.sshd_config -h $key && echo configured; rm -f $key $key.pub'
expect "sshd as $user" configured "$check"

if [[ ${#problems[@]} -gt 0 ]]; then
  printf 'this image is not usable for jobs: %s\n' "${problems[@]}" >&2
  exit 1
fi
echo "user $user, sshd, $(over_ssh 'mpirun --version' | head --lines 1), Python modules ${PYTHON_MODULES:-mpi4py}, nccl-tests: ok"
