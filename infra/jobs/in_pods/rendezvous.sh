# A node of a torchrun job: waits until the first node has a name, then becomes `torchrun`, told which node it is.
set -eu
tries=0
until getent hosts "$MASTER_ADDR" > /dev/null; do
  tries=$((tries + 1))
  [ $((tries % 150)) -ne 15 ] || echo "waiting for $MASTER_ADDR" >&2
  sleep 0.2
done
program="$1"
shift
exec "$program" --node_rank="$JOB_COMPLETION_INDEX" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"
