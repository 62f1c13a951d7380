# A node of a torchrun job: waits until the first node has a name, then becomes `torchrun`, told which node it is.
set -eu
wait_for_name "$MASTER_ADDR"
program="$1"
shift
exec "$program" --node_rank="$JOB_COMPLETION_INDEX" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"
