# Receive a folder. A file that another job has already received is copied from there, and checked: the ranks of the
# other job may have changed it. The folder of each job has `files`, which lists paths and digests like sha256sum, and
# the files in `workdir`. Arguments: `offer`, folder of all jobs, folder of this job, size of the list. Input: the list;
# executable files begin with `x`. Output: the files that need not be sent. Or: `take`, folder of all jobs, folder of
# this job, size of the archive. Input: a tar.gz archive with the other files.
set -eu
LC_ALL=C
export LC_ALL
jobs="$1" folder="$2" size="$3" verb="$0"
for program in awk cp head sed sha256sum tar; do
  command -v "$program" > /dev/null || { echo "the image has no $program, which is needed to receive files" >&2; exit 78; }
done
right() {
  cd "$folder/workdir"
  sha256sum -c "$folder/files" 2> /dev/null | sed -n 's/: OK$//p'
}
if [ "$verb" = offer ]; then
  mkdir -p "$folder/workdir"
  head -c "$size" > "$folder/list"
  sed 's/^..//' "$folder/list" > "$folder/files.part"
  for earlier in "$jobs"/*/files; do
    [ ! -e "$earlier" ] || awk -v path="${earlier%files}workdir/" '{ print substr($0, 1, 64) " " path substr($0, 67) }' "$earlier"
  done > "$folder/known"
  awk -v folder="$folder/workdir/" '
    FNR == 1 { file++ }
    file == 1 { wanted[substr($0, 1, 64)] = 1; next }
    file == 2 { if (substr($0, 1, 64) in wanted) known[substr($0, 1, 64)] = substr($0, 66); next }
    substr($0, 1, 64) in known { print known[substr($0, 1, 64)]; print folder substr($0, 67) }
  ' "$folder/files.part" "$folder/known" "$folder/files.part" > "$folder/copies"
  while IFS= read -r from && IFS= read -r to; do
    [ -d "${to%/*}" ] || mkdir -p "${to%/*}"
    cp "$from" "$to" 2> /dev/null || true
  done < "$folder/copies"
  mv "$folder/files.part" "$folder/files"
  right
  exit
fi
[ -e "$folder/list" ] || exit 0  # a sender whose connection broke at the end repeats `take`
head -c "$size" | tar -xzf - -C "$folder/workdir"
total=$(wc -l < "$folder/files")
[ "$(right | wc -l)" -eq "$total" ] || { echo "files did not arrive as they were sent" >&2; exit 1; }
find "$folder/workdir" -type f -exec chmod 644 {} +
sed -n 's/^x .\{66\}//p' "$folder/list" | while IFS= read -r path; do chmod 755 "$folder/workdir/$path"; done
rm -f "$folder/list" "$folder/known" "$folder/copies"
