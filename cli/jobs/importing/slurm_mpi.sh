# Emulate Slurm's variables and commands for this job. Written by `import`.
export SLURM_JOB_ID=${SLURM_JOB_ID:-${HOSTNAME%-launcher*}} SLURM_JOB_NODELIST=workers SLURM_NODELIST=workers SLURM_SUBMIT_DIR=${SLURM_SUBMIT_DIR:-$PWD}
workers() { awk '{ sub(/:.*/, "", $1); print $1 }' "${OMPI_MCA_orte_default_hostfile:-${HYDRA_HOST_FILE:-$I_MPI_HYDRA_HOST_FILE}}"; }
scontrol() { workers; }
SLURM_JOB_NUM_NODES=$(workers | wc -l)
export SLURM_JOB_NUM_NODES SLURM_NNODES=$SLURM_JOB_NUM_NODES
srun() {
  local number=()
  while [[ ${1:-} == -* ]]; do
    case $1 in
      -n | --ntasks) number=(-np "$2"); shift 2 ;;
      --ntasks=*) number=(-np "${1#*=}"); shift ;;
      -n*) number=(-np "${1#-n}"); shift ;;
      --*=* | -[lvuQkEHIKOsZbX]*) shift ;;
      @flags@) shift ;;
      -?) shift 2 ;;
      --*) shift 2 ;;
      *) shift ;;
    esac
  done
  mpirun "${number[@]}" bash -c '
    export SLURM_PROCID=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} SLURM_LOCALID=${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}
    export SLURM_NTASKS=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}
    exec "$@"' srun "$@"
}

