# Emulate Slurm's variables and commands for this job. Written by `import`.
export SLURM_JOB_ID=${SLURM_JOB_ID:-$HOSTNAME} SLURM_JOB_NUM_NODES=$NNODES SLURM_NNODES=$NNODES SLURM_NODEID=$JOB_COMPLETION_INDEX
export SLURM_JOB_ID=${SLURM_JOB_ID%-*} SLURM_JOBID=${SLURM_JOB_ID%-*} SLURM_NTASKS_PER_NODE=$NPROC_PER_NODE SLURM_GPUS_PER_NODE=$NPROC_PER_NODE
export SLURM_PROCID=$JOB_COMPLETION_INDEX SLURM_LOCALID=0 SLURM_NTASKS=$NNODES SLURM_JOB_NODELIST=workers SLURM_NODELIST=workers
export SLURM_SUBMIT_DIR=${SLURM_SUBMIT_DIR:-$PWD}
hostname() { # an address, because torchrun with rendezvous backend c10d recognizes its own host only by name or address
  local found
  found=$(getent hosts "$MASTER_ADDR") || found=$MASTER_ADDR
  echo "${found%% *}"
}
scontrol() { for ((n = 0; n < NNODES; n++)); do echo "${MASTER_ADDR/-0./-$n.}"; done; }
srun() {
  while [[ ${1:-} == -* ]]; do
    case $1 in
      --*=* | -[lvuQkEHIKOsZbX]*) shift ;;
      @flags@) shift ;;
      -?) shift 2 ;;
      --*) shift 2 ;;
      *) shift ;;
    esac
  done
  if [[ ${1##*/} == torchrun ]]; then
    shift
    torchrun "$@"
  else
    "$@"
  fi
}

