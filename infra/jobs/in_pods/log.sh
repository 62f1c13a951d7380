# Copy the output of this container to a file on the shared volume, which outlives the pod, or to the pipe of send_log.sh.
# tee keeps printing even if the file reaches its limit, the volume is full, or nobody reads the pipe.
if [ -n "${GPUMPI_LOG:-}" ] && command -v tee mkfifo > /dev/null && mkdir -p "${GPUMPI_LOG%/*}"; then
  rm -f /tmp/output
  mkfifo /tmp/output
  (
    trap '' TERM INT XFSZ PIPE
    ulimit -f "$GPUMPI_LOG_BLOCKS"
    exec tee -a "$GPUMPI_LOG"
  ) < /tmp/output &
  log=$!
  exec > /tmp/output 2>&1
  # tee ends when the last process has closed the pipe, so end any that the script has left behind.
  finish_log() {
    exec > /dev/null 2>&1
    for child in $(cat "/proc/$$/task/$$/children"); do
      [ "$child" = "$log" ] || [ "$child" = "${sender:-}" ] || kill -KILL "$child" || true
    done
    (sleep 2; kill -KILL "$log") &
    wait "$log" || true
    [ -z "${sender:-}" ] || wait "$sender" || true
  }
  trap finish_log EXIT
fi
