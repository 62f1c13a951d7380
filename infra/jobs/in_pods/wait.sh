# Waiting, with a word now and then.
wait_for() {  # what, and the command that succeeds when it is there
  what="$1" tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    [ $((tries % 150)) -ne 15 ] || echo "waiting for $what" >&2
    sleep 0.2
  done
}
wait_for_name() {  # of a host, in DNS
  wait_for "$1" getent hosts "$1" > /dev/null
}
