#!/usr/bin/env bash
# Fail unless everything that a node needs is there and two ranks run. Skipped steps are not checked.
#   NODE_KIND    ec2 (default) or eks
#   FRAMEWORKS   the requested package sets
#   LOGIN_USER   the user, mpiuser by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
record=/etc/gpumpi/provisioners user=${LOGIN_USER:-mpiuser}

wanted=(check-driver check-fabric-manager check-efa check-ofi-nccl install-python install-cuda-headers select-openmpi
  install-mpi4py install-frameworks configure-limits install-first-boot-check)
case ${NODE_KIND:-ec2} in
  ec2) wanted+=(check-nccl hold-driver install-gdrcopy create-user install-efs-utils install-lustre-client configure-node-ssh
    restrict-metadata install-join-service configure-mpi-hosts) ;;
  eks) wanted+=(install-efa) ;;
  *) echo "unknown NODE_KIND \"$NODE_KIND\". Use ec2 or eks" >&2 && exit 2 ;;
esac

prints() { # TEXT COMMAND...: the command's output contains the text
  local text=$1 output
  shift
  output=$("$@" 2>&1) && [[ $output == *"$text"* ]]
}

reads_hostfile() { # mpirun starts more ranks than this machine has processors only if the default hostfile allows it
  local file=/etc/gpumpi/hostfile kept ranks=$(($(nproc --all) * 2 + 1)) code=0
  kept=$(mktemp)
  cp --preserve "$file" "$kept"
  echo "localhost slots=$ranks" >"$file"
  timeout 60 su "$user" -c "cd && mpirun --bind-to none -n $ranks true" || code=$?
  cp --preserve "$kept" "$file"
  rm "$kept"
  return "$code"
}

only_root_reads_metadata() { # the rules are loaded at boot and, on a running machine, already apply
  local address connect
  address=$(sed --quiet 's/.*ip daddr \([^ ]*\).*/\1/p' "$here/../files/metadata.nft")
  connect="timeout 10 bash -c 'exec 3<>/dev/tcp/$address/80'"
  systemctl is-enabled gpumpi-metadata.service && cmp "$here/../files/metadata.nft" /etc/gpumpi/metadata.nft || return 1
  nft --check --file /etc/gpumpi/metadata.nft || return 1
  [[ -d /run/systemd/system ]] || return 0
  bash -c "$connect" && ! su "$user" -c "$connect"
}

is_there() {
  local name
  case $1 in
    check-*) "$here/$1.sh" ;;
    hold-driver) [[ ! -e /usr/bin/nvidia-smi || -n $(apt-mark showhold 2>/dev/null || dnf versionlock list --quiet) ]] ;;
    install-python) python3 -c 'import numpy' ;;
    install-cuda-headers) [[ -e /usr/local/cuda/include/cuda.h || -e /opt/cuda-headers-$cuda_headers_version/.complete ]] ;;
    install-gdrcopy) "$here/check-gdrcopy.sh" ;;
    install-efa) [[ -x /opt/amazon/openmpi5/bin/mpirun ]] && "$here/check-efa.sh" ;;
    select-openmpi) "$here/query-cuda-support.sh" /opt/mpi && prints "$(sed --quiet s/^MPI_VERSION=//p /etc/gpumpi/mpi)" mpirun --version ;;
    install-mpi4py) prints "$mpi4py_version" python3 -c 'import mpi4py; print(mpi4py.__version__)' ;;
    install-frameworks)
      for name in ${FRAMEWORKS:-}; do cmp --silent "$here/../frameworks/$name.txt" "/opt/gpumpi/frameworks/$name.txt" || return 1; done
      ;;
    configure-limits) prints infinity cat /etc/systemd/system.conf.d/50-gpumpi.conf ;;
    create-user) id "$user" ;;
    install-efs-utils) command -v mount.efs ;;
    install-lustre-client) command -v mount.lustre || [[ -f /etc/gpumpi/no-lustre-client ]] ;;
    configure-node-ssh) [[ -e /etc/ssh/sshd_config.d/50-gpumpi.conf ]] && id --name --groups "$user" | grep --quiet --word-regexp gpumpi ;;
    restrict-metadata) only_root_reads_metadata ;;
    install-join-service) systemctl is-enabled gpumpi-join.service && [[ -x /usr/local/bin/gpumpi-join ]] ;;
    configure-mpi-hosts) reads_hostfile ;;
    install-first-boot-check) systemctl is-enabled gpumpi-first-boot.service && [[ -x /usr/local/lib/gpumpi/first-boot-check ]] ;;
  esac >/dev/null 2>&1
}

missing=()
for name in "${wanted[@]}"; do
  if grep --quiet --perl-regexp "^skipped\t$name\t" "$record"; then
    echo "$name: skipped"
  elif is_there "$name"; then
    echo "$name: ok"
  else
    missing+=("$name")
  fi
done
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "missing or not in the pinned version: ${missing[*]}. Run these provisioners, or add them to Packer's variable skip" >&2
  exit 1
fi
"$here/validate-mpi.sh"
