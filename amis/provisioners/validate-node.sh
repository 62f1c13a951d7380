#!/usr/bin/env bash
# Fail unless everything that a node needs is installed in the pinned version and two ranks run. Skipped steps are not
# checked.
#   NODE_KIND    ec2 (default) or eks
#   OPENMPI_SERIES, OPENMPI_ORIGIN   as for build-openmpi.sh
#   FRAMEWORKS   the requested package sets
#   LOGIN_USER   the user, mpiuser by default
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"
case ${OPENMPI_ORIGIN:-upstream} in upstream) origin=source ;; *) origin=$OPENMPI_ORIGIN ;; esac
openmpi_version=openmpi${OPENMPI_SERIES:-4}_${origin}_version # name of the variable
record=/etc/gpumpi/provisioners user=${LOGIN_USER:-mpiuser}

wanted=(install-python install-nvidia-driver install-cuda-toolkit install-cuda-headers install-gdrcopy install-efa build-ucx
  build-openmpi install-nccl build-nccl-tests install-mpi4py install-frameworks configure-limits install-ssm-agent)
case ${NODE_KIND:-ec2} in
  ec2) wanted+=(create-user install-efs-utils configure-node-ssh install-join-service configure-mpi-hosts) ;;
  eks) ;;
  *) echo "unknown NODE_KIND \"$NODE_KIND\". Use ec2 or eks" >&2 && exit 2 ;;
esac

prints() { # TEXT COMMAND...: the command's output contains the text
  local text=$1 output
  shift
  output=$("$@" 2>&1) && [[ $output == *"$text"* ]]
}

has_efa() { grep --quiet --no-messages 0xefa /sys/bus/pci/devices/*/device; }

is_there() {
  local name
  case $1 in
    install-python) python3 -c 'import numpy' ;;
    install-nvidia-driver)
      command -v nvidia-smi && modinfo nvidia && { [[ ${NODE_KIND:-ec2} == eks ]] || prints "$nvidia_driver_version" modinfo nvidia; }
      ;;
    install-cuda-toolkit) prints "release ${cuda_version%.*}," /usr/local/cuda/bin/nvcc --version ;;
    install-cuda-headers) [[ -e /usr/local/cuda/include/cuda.h || -e /opt/cuda-headers-$cuda_headers_version/.complete ]] ;;
    install-gdrcopy) [[ $(cat /opt/gdrcopy/.complete) == "$gdrcopy_version" ]] && modinfo gdrdrv ;;
    install-efa)
      prints "EFA installer version: $efa_version" cat /opt/amazon/efa_installed_packages && [[ -d /opt/amazon/ofi-nccl/lib ]] &&
        { ! has_efa || prints "provider: efa" /opt/amazon/efa/bin/fi_info -p efa; }
      ;;
    build-ucx) prints "$ucx_version" /opt/ucx/bin/ucx_info -v && prints cuda /opt/ucx/bin/ucx_info -d ;;
    build-openmpi)
      prints mpi_built_with_cuda_support:value:true ompi_info --parsable --all &&
        grep --quiet --line-regexp --fixed-strings "MPI_VERSION=${!openmpi_version}" /etc/gpumpi/mpi
      ;;
    install-nccl)
      # shellcheck disable=SC2016 # awk's variables
      prints "${nccl_version%-*}" awk '/define NCCL_(MAJOR|MINOR|PATCH) / { v = v dot $3; dot = "." } END { print v }' /usr/include/nccl.h
      ;;
    build-nccl-tests) [[ -x /opt/nccl-tests/all_reduce_perf && $(cat /opt/nccl-tests/.complete) == "$nccl_tests_version-"* ]] ;;
    install-mpi4py) prints "$mpi4py_version" python3 -c 'import mpi4py; print(mpi4py.__version__)' ;;
    install-frameworks)
      for name in ${FRAMEWORKS:-}; do cmp --silent "$here/../frameworks/$name.txt" "/opt/gpumpi/frameworks/$name.txt" || return 1; done
      ;;
    configure-limits) prints infinity cat /etc/systemd/system.conf.d/50-gpumpi.conf ;;
    install-ssm-agent) systemctl is-enabled amazon-ssm-agent.service || snap list amazon-ssm-agent ;;
    create-user) id "$user" ;;
    install-efs-utils) command -v mount.efs ;;
    configure-node-ssh) [[ -e /etc/ssh/sshd_config.d/50-gpumpi.conf ]] && id --name --groups "$user" | grep --quiet --word-regexp gpumpi ;;
    install-join-service) systemctl is-enabled gpumpi-join.service && [[ -x /usr/local/bin/gpumpi-join ]] ;;
    configure-mpi-hosts) grep --quiet /etc/gpumpi/hostfile /opt/mpi/etc/*-mca-params.conf ;;
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
