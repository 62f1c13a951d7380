# Print what each rank of this pod is doing. A rank is a process with a rank's environment variables whose parent is not
# a rank. Shells are not ranks. The script never stops or ends a rank: with `--nonblocking`, py-spy can read a process
# that is running, hanging or stopped. Arguments: the text of dump_nccl.py and, in one pod of the job, `job`. That pod
# queries NCCL about all ranks.
variable() { tr '\0' '\n' < "/proc/$1/environ" 2> /dev/null | sed -nE "s/^($2)=//p" | head -n 1; }
number() { variable "$1" 'RANK|OMPI_COMM_WORLD_RANK|PMI_RANK'; }
status() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2> /dev/null; }
is_rank() {
  case $(readlink "/proc/$1/exe") in '' | */sh | */ash | */bash | */dash | */busybox) return 1 ;; esac
  [ -n "$(number "$1")" ]
}
dump() {
  echo "gpumpi-rank $(number "$1") $(status "$1" State | cut -c 1) $(status "$1" Name)"
  if command -v py-spy > /dev/null; then
    timeout 8 py-spy dump --nonblocking --pid "$1" 2>&1 | sed '/^Stack backtrace:/,$d'
  else
    echo "the image has no py-spy"
  fi
  pipe=$(variable "$1" TORCH_NCCL_DEBUG_INFO_PIPE_FILE)
  file=$(variable "$1" TORCH_FR_DUMP_TEMP_FILE) # the newer name
  [ -n "$file" ] || file=$(variable "$1" TORCH_NCCL_DEBUG_INFO_TEMP_FILE)
  [ ! -p "$pipe$(number "$1").pipe" ] ||
    timeout 16 python3 -c "$program" recorder "$pipe" "$file" "$(number "$1")" $((end - $(date +%s))) 2>&1
}
program=$1
end=$(($(date +%s) + 14)) # the controller waits 16 seconds for this script: EXEC_SECONDS in stacks.py
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for path in /proc/[0-9]*; do
  pid=${path#/proc/}
  is_rank "$pid" && ! is_rank "$(status "$pid" PPid)" && dump "$pid" > "$folder/rank-$pid" &
done 2> /dev/null
[ "${2:-}" != job ] || ! command -v python3 > /dev/null ||
  timeout 10 python3 -c "$program" ras "${NCCL_RAS_ADDR:-localhost:28028}" > "$folder/ras" 2>&1 &
wait
cat "$folder"/*
