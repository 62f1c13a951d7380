"""Generate the script of `run --restarts`, which restarts a command on the head node once all nodes are back."""

from typing import Final

HOSTFILE: Final = "/etc/gpumpi/hostfile"
"""Open MPI's default hostfile. amis/join/gpumpi_join/service.py adds each node that has joined the cluster."""
LIMIT_SECONDS: Final = 2400
"""How long to wait for the replacements of lost nodes. The largest instances launch and join within half an hour."""
PAUSE_SECONDS: Final = 5
CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 20
"""How long a node may take to answer over SSH. The `ssh` program's own time limit does not cover the login."""
GRACE_SECONDS: Final = 30
"""How long mpirun may take to exit after it has reported a lost node."""

_FUNCTIONS: Final = r"""
hosts() { sed 's/[ :].*//' "$hostfile" 2>/dev/null; }
answers() {
  case " $(hostname -I) " in *" $1 "*) return 0 ;; esac
  grep -qE "^$1([ :]|$)" "$hostfile" && timeout @answer@ ssh -o ConnectTimeout=@connect@ "$1" true </dev/null >/dev/null 2>&1
}
lost() { # prints those of these hosts that have left the cluster or do not answer
  for host in "$@"; do (answers "$host" || echo "$host") & done
  wait
}
tree() { for child in $(pgrep -P "$1"); do tree "$child"; done; echo "$1"; }
# Open MPI 5 may report a lost node and then wait forever.
watch() {
  until tail --bytes=+"$1" "$GPUMPI_RUN/log" 2>/dev/null | grep -q 'lost communication with a remote daemon'; do
    sleep @pause@
  done
  sleep @grace@
  echo "run: mpirun reported a lost node @grace@ seconds ago and has not ended; ending it" >&2
  trap '' TERM # the end of the command must not keep its processes from being killed
  own=$BASHPID
  ended=$(for child in $(pgrep -P $$); do [ "$child" = "$own" ] || tree "$child"; done)
  kill -TERM $ended 2>/dev/null
  sleep @pause@
  kill -KILL $ended 2>/dev/null
}
await_hosts() {
  local end=$((SECONDS + @limit@)) told= listed
  while true; do
    listed=$(hosts) # read once: the join service may remove a node at any time
    if [ "$(wc -w <<<"$listed")" -ge "$wanted" ] && [ -z "$(lost $listed)" ]; then return; fi
    if [ "$SECONDS" -ge "$end" ]; then
      echo "run: after $((@limit@ / 60)) minutes, not all of the $wanted nodes are back; restarting with the others" >&2
      return
    fi
    if [ -z "$told" ]; then echo "run: waiting until all $wanted nodes answer" >&2; fi
    told=1
    sleep @pause@
  done
}
"""
_LOOP: Final = r"""
wanted=$(hosts | wc -l) restarts=0
while true; do
  before=$(hosts)
  code=0
  seen=$(stat -c %s "$GPUMPI_RUN/log" 2>/dev/null || echo 0)
  watch $((seen + 1)) &
  watch=$!
  @command@ || code=$?
  kill "$watch" 2>/dev/null
  wait "$watch" 2>/dev/null
  gone=$(lost $before | sort | tr '\n' ' ')
  # Open MPI 5 may exit with 0 although it lost a node: https://github.com/openpmix/prrte/pull/2603
  if [ -n "$gone" ]; then echo "run: lost ${gone% }" >&2; fi
  if [ "$code" -eq 0 ] && [ -n "$gone" ]; then code=1; fi
  if [ "$code" -eq 0 ] || [ "$restarts" -ge @restarts@ ]; then break; fi
  restarts=$((restarts + 1))
  echo "$restarts" >"$GPUMPI_RUN/restarts"
  echo "run: restart $restarts of @restarts@ after exit code $code" >&2
  await_hosts
done
(exit "$code")"""


def wrap_in_restart_script(line: str, restarts: int, hostfile: str = HOSTFILE) -> str:
    """Return a bash script that restarts a command, at most `restarts` times, when it fails or loses nodes.

    The script terminates the command if mpirun has reported a lost node but keeps running. The join service removes
    lost nodes from the hostfile, and Auto Scaling replaces them. Before each restart, the script waits until the
    hostfile lists as many nodes as at the start and all of them answer. The script exits with the exit code of the
    last attempt.
    """
    seconds = {"answer": ANSWER_SECONDS, "connect": CONNECT_SECONDS, "grace": GRACE_SECONDS, "limit": LIMIT_SECONDS}
    limits = {**seconds, "pause": PAUSE_SECONDS, "restarts": restarts}
    script = f"hostfile={hostfile}{_FUNCTIONS}{_LOOP}"
    for name, number in limits.items():
        script = script.replace(f"@{name}@", str(number))
    return script.replace("@command@", line)
