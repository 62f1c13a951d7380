# Node of a torchrun job: wait until the first node has a DNS name, then run a starter of PyTorch with the rank of this node.
# torchrun reads PET_* variables for options that are missing on its command line:
# https://github.com/pytorch/pytorch/blob/main/torch/distributed/argparse_util.py
set -eu
trap 'exit 143' TERM INT
wait_for_name "$MASTER_ADDR"
export NODE_RANK="$JOB_COMPLETION_INDEX" PET_NODE_RANK="$JOB_COMPLETION_INDEX"
export PET_NNODES="$NNODES" PET_NPROC_PER_NODE="$NPROC_PER_NODE" PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"
node=0
while [ "$node" -lt "$NNODES" ]; do  # for deepspeed, which reads the number of nodes and ranks from a hostfile
  echo "node-$node slots=$NPROC_PER_NODE"
  node=$((node + 1))
done > /tmp/hostfile
"$@" &
command=$! stopping=
# torchrun would end its ranks 30 seconds after it has forwarded SIGTERM:
# https://github.com/pytorch/pytorch/blob/main/torch/distributed/elastic/multiprocessing/api.py (PContext.close)
stop() {
  [ -z "$stopping" ] || return 0
  stopping=1
  (/tmp/stop-ranks told; kill -TERM "$command" 2> /dev/null) &
}
trap stop TERM INT
wait_for_command
[ -z "$stopping" ] || exit 143
exit "$code"
