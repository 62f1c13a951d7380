#!/usr/bin/env bash
# Check on a machine with a GPU what the AMI's build could not check: the driver loads and sees every GPU, the fabric manager
# runs where there is an NVSwitch, libfabric opens EFA, and Open MPI is CUDA-aware with the real libcuda. The result is in
# /etc/gpumpi/first-boot.json, in the journal and on the instance's console. Without a GPU it does nothing and runs again at
# the next boot.
#   ROOT   prefix of /sys, /dev and /etc, for tests
set -o errexit -o nounset -o pipefail
root=${ROOT:-} gpus=0 switches=0 efas=0 problems=()

for device in "$root"/sys/bus/pci/devices/*; do
  vendor=$(cat "$device/vendor" 2>/dev/null || true) class=$(cat "$device/class" 2>/dev/null || true)
  case $vendor-$class in
    0x10de-0x03*) gpus=$((gpus + 1)) ;;
    0x10de-0x0680*) switches=$((switches + 1)) ;; # NVSwitch is a bridge
    0x1d0f-*) [[ $(cat "$device/device") != 0xefa* ]] || efas=$((efas + 1)) ;;
  esac
done
if [[ $gpus -eq 0 ]]; then
  echo "gpumpi: no GPU here, nothing to check"
  exit 0
fi

seen=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>&1) || true
found=$(grep --count --extended-regexp '^[0-9.]+$' <<<"$seen") || true
driver=$(head --lines 1 <<<"$seen")
[[ $found -eq $gpus ]] || problems+=("nvidia-smi sees $found of $gpus GPUs: $driver")
if [[ $switches -gt 0 ]] && ! systemctl is-active --quiet nvidia-fabricmanager.service; then
  problems+=("nvidia-fabricmanager.service is not active, and this machine has NVSwitches")
fi
if [[ $efas -gt 0 ]] && ! /opt/amazon/efa/bin/fi_info -p efa >/dev/null 2>&1; then
  problems+=("libfabric finds no EFA device, and this machine has $efas")
fi
mpi=none
if [[ -e $root/etc/gpumpi/mpi ]]; then
  # shellcheck source=/dev/null
  source "$root/etc/gpumpi/mpi"
  mpi="$MPI_IMPLEMENTATION $MPI_VERSION"
  reason=$(/usr/local/lib/gpumpi/query-cuda-support "$MPI_FOLDER" 2>&1) || problems+=("$reason")
fi

install -d -m 0755 "$root/etc/gpumpi"
python3 - "$root/etc/gpumpi/first-boot.json" "$gpus" "$efas" "$driver" "$mpi" "${problems[@]}" <<'END'
import json, sys
path, gpus, efas, driver, mpi, *problems = sys.argv[1:]
with open(path, "w") as file:
    json.dump({"ok": not problems, "gpus": int(gpus), "efa": int(efas), "driver": driver, "mpi": mpi, "problems": problems}, file)
END
if [[ ${#problems[@]} -gt 0 ]]; then
  printf 'gpumpi: %s\n' "${problems[@]}" >&2
  exit 1
fi
echo "gpumpi: $gpus GPUs, driver $driver, $efas EFA devices, $mpi is CUDA-aware"
