# Create a job's SSH key pair on a volume that all of its pods mount, and copy it to the pod. The first pod creates the key pair
# atomically. Each pod that uses it has a file in the folder `users`, until it ends (keys_in_use.sh). Arguments: the job's
# directory on the volume, the pod's own directory, the name of the pod's file, which a replacement of the pod reuses.
set -eu
umask 077
folder="$1" own="$2" user="$1/users/${3:-$HOSTNAME}" tries=0
command -v ssh-keygen > /dev/null || refuse "the image has no ssh-keygen, which makes the keys"
mkdir -p "${folder%/*}"
until touch "$user" 2> /dev/null; do
  if [ ! -e "$folder" ]; then
    new=$(mktemp -d "$folder.XXXXXX")
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$new/id_rsa"
    cp "$new/id_rsa.pub" "$new/authorized_keys"
    mkdir "$new/users"
    mv -T "$new" "$folder" 2> /dev/null || rm -r "$new"
  elif [ -e "$folder/users" ]; then
    touch "$user"  # prints why it fails
  elif [ "$tries" -lt 50 ]; then  # the last pod of an earlier run is deleting the folder
    tries=$((tries + 1))
    sleep 0.2
  else
    rm -r "$folder"
  fi
done
cp "$folder/id_rsa" "$folder/id_rsa.pub" "$folder/authorized_keys" "$own/"
echo "$user" > "$own/user"
