# Process 1 of a pod has no default signal handlers, so it would ignore SIGTERM until the grace period ends. Run a
# command as a child process, forward SIGTERM to it, and set `code` to its exit code.
run() {
  "$@" &
  command=$!
  trap 'kill -TERM "$command" 2> /dev/null' TERM INT
  wait_for_command
}
wait_for_command() {
  code=0
  wait "$command" || code=$?
  while kill -0 "$command" 2> /dev/null; do  # a signal interrupted `wait`; the command still runs
    code=0
    wait "$command" || code=$?
  done
}
