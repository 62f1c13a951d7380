# Write /tmp/stop-ranks, which sends the job's stop signal to each rank of this pod once, and waits until they have ended. Ranks
# that the launcher started have a file in /tmp/ranks: rank.sh writes it. Ranks that a program in the job's command started are
# found by the variables that MPI and PyTorch set. A shell does not forward signals, so its children get the signal.
rm -rf /tmp/ranks /tmp/stopping
mkdir /tmp/ranks
cat > /tmp/stop-ranks <<'END'
#!/bin/sh
# Argument: `told`, or `wait`.
targets() {
  case $(readlink "/proc/$1/exe") in
    */sh | */ash | */bash | */dash | */busybox) children=$(cat "/proc/$1/task/$1/children" 2> /dev/null) ;;
    *) children= ;;
  esac
  [ -n "$children" ] || echo "$1"
  for child in $children; do targets "$child"; done
}
ranks() {
  for file in /tmp/ranks/*.rank; do
    [ ! -e "$file" ] || cat "$file"
  done
  [ -e "$file" ] || {
    found=$(grep -slE '(OMPI_COMM_WORLD_RANK|PMI_RANK|LOCAL_RANK)=' /proc/[0-9]*/environ | sed 's|/proc/||; s|/environ||')
    for one in $found; do
      parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$one/status" 2> /dev/null)
      echo "$found" | grep -qx "$parent" || echo "$one"
    done
  }
}
alive() {  # a process that nobody has waited for has ended too
  case $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2> /dev/null) in '' | Z*) return 1 ;; esac
}
if [ "$1" = wait ]; then  # for the shells that wait until the launcher ends mpirun
  for file in /tmp/ranks/*.rank; do
    shell=${file##*/}
    while [ -e "$file" ] && alive "${shell%.rank}"; do sleep 0.2; done
  done
  exit
fi
all=$(ranks)
for rank in $all; do
  mkdir "/tmp/ranks/$rank.told" 2> /dev/null || continue
  for process in $(targets "$rank"); do kill "-${GPUMPI_STOP_SIGNAL:-TERM}" "$process" 2> /dev/null; done
done
for rank in $all; do
  while alive "$rank"; do sleep 0.2; done
done
END
chmod +x /tmp/stop-ranks
