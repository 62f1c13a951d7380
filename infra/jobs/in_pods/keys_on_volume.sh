# Create a job's SSH key pair on a volume that all of its pods mount, and copy it to the pod. The first pod creates the
# key pair atomically. Arguments: the job's directory on the volume, the pod's own directory.
set -eu
umask 077
folder="$1" own="$2"
command -v ssh-keygen > /dev/null || refuse "the image has no ssh-keygen, which makes the keys"
mkdir -p "${folder%/*}"
if [ ! -e "$folder" ]; then
  made=$(mktemp -d "$folder.XXXXXX")
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$made/id_rsa"
  cp "$made/id_rsa.pub" "$made/authorized_keys"
  mv -T "$made" "$folder" 2> /dev/null || rm -r "$made"
fi
cp "$folder/id_rsa" "$folder/id_rsa.pub" "$folder/authorized_keys" "$own/"
