#!/usr/bin/env bash
# Install py-spy and allow it to read the ranks. The job controller uses it to print the Python stacks of hung ranks. If
# Yama restricts ptrace (ptrace_scope 1, Ubuntu's default), only the ancestors of a process may read it, unless the
# process allows others to: https://docs.kernel.org/admin-guide/LSM/Yama.html. Therefore each Python process of the image
# allows all processes of its user in its pod, as without Yama. With ptrace_scope 2 or 3, this has no effect, and there
# are no stacks.
set -o errexit -o nounset -o pipefail
here=$(dirname "$(readlink --canonicalize "$0")")
# shellcheck source-path=SCRIPTDIR source=../versions.pkrvars.hcl
source "$here/../versions.pkrvars.hcl"

folder=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$folder"
cat >"$folder/allow-py-spy.pth" <<'END'
import os; exec("if os.path.exists('/proc/sys/kernel/yama/ptrace_scope'):\n try:\n  import ctypes\n  ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)\n except Exception:\n  pass")
END
[[ $(py-spy --version 2>/dev/null || true) == "py-spy $py_spy_version" ]] && exit 0

requirement=$(mktemp)
trap 'rm -f "$requirement"' EXIT
echo "py-spy==$py_spy_version --hash=sha256:$py_spy_wheel_sha256 --hash=sha256:$py_spy_other_sha256" >"$requirement"
PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --only-binary :all: \
  --require-hashes --requirement "$requirement"
py-spy --version
