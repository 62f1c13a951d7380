# Node of a torchrun job: wait until the first node has a DNS name, then run `torchrun` with the rank of this node.
set -eu
wait_for_name "$MASTER_ADDR"
program="$1"
shift
exec "$program" --node_rank="$JOB_COMPLETION_INDEX" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"
