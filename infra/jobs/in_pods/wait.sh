# Wait, and print a message from time to time.
wait_for() {  # arguments: what to wait for, and a command that succeeds once it is there
  what="$1" tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    [ $((tries % 150)) -ne 15 ] || echo "waiting for $what" >&2
    sleep 0.2
  done
}
wait_for_name() {  # argument: a host; waits until DNS resolves its name
  wait_for "$1" getent hosts "$1" > /dev/null
}
