"""The script with which `run --restarts` starts a command again on the head node, once the cluster is whole again."""

from typing import Final

HOSTFILE: Final = "/etc/gpumpi/hostfile"
"""Nodes that have joined. Written by amis/join/gpumpi_join/service.py; Open MPI's default."""
LIMIT_SECONDS: Final = 2400
"""How long to wait for the replacements of lost nodes: launch and join, which the largest instances finish in half an hour."""
PAUSE_SECONDS: Final = 5
CONNECT_SECONDS: Final = 10

_FUNCTIONS: Final = r"""
hosts() { sed 's/[ :].*//' "$hostfile" 2>/dev/null; }
answers() {
  case " $(hostname -I) " in *" $1 "*) return 0 ;; esac
  grep -qE "^$1([ :]|$)" "$hostfile" && ssh -o ConnectTimeout=@connect@ "$1" true </dev/null >/dev/null 2>&1
}
lost() { # prints those of these hosts that have left the cluster or do not answer
  for host in "$@"; do (answers "$host" || echo "$host") & done
  wait
}
await_hosts() {
  local end=$((SECONDS + @limit@)) told=
  while true; do
    if [ "$(hosts | wc -l)" -ge "$wanted" ] && [ -z "$(lost $(hosts))" ]; then return; fi
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
  @command@ || code=$?
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


def repeated(line: str, restarts: int, hostfile: str = HOSTFILE) -> str:
    """Return a bash script that runs a command again while it fails or loses nodes, up to this number of times.

    Before each restart, it waits until the hostfile lists as many nodes as at the beginning and all of them answer: the join
    service removes lost nodes, and Auto Scaling replaces them. It ends with the exit code of the last attempt."""
    limits = {"connect": CONNECT_SECONDS, "limit": LIMIT_SECONDS, "pause": PAUSE_SECONDS, "restarts": restarts}
    script = f"hostfile={hostfile}{_FUNCTIONS}{_LOOP}"
    for name, number in limits.items():
        script = script.replace(f"@{name}@", str(number))
    return script.replace("@command@", line)
