# Rank of an MPI job. Set the variables that PyTorch and libraries on top of it read, from those of Open MPI 4 and 5, of
# Intel MPI and of MPICH. Variables in the job's env take precedence.
name() {  # arguments: a variable, its value; does nothing if there is no value
  [ -z "$2" ] || eval "export $1=\"\${$1:-$2}\""
}
name RANK "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}"
name WORLD_SIZE "${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-}}"
name LOCAL_RANK "${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-}}"
name LOCAL_WORLD_SIZE "${OMPI_COMM_WORLD_LOCAL_SIZE:-${MPI_LOCALNRANKS:-}}"
[ -d /tmp/ranks ] || exec "$@"
"$@" <&0 &
command=$!
trap 'kill -TERM "$command" 2> /dev/null' TERM INT
read -r self _ < /proc/self/stat
echo "$command" > "/tmp/ranks/$self.rank"
wait_for_command
# MPI ends all ranks when the first one ends, and Open MPI 5 does so with SIGKILL at once. A rank that ended because
# it was told to stop therefore waits here until the launcher knows that the others have ended too, and ends mpirun.
if [ -e "/tmp/ranks/$command.told" ]; then
  trap 'exit "$code"' TERM INT
  while :; do
    sleep 1 &
    wait "$!"
  done
fi
rm -f "/tmp/ranks/$self.rank"
exit "$code"
