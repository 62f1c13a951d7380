#!/bin/sh
# PID 1 of the node, in its own namespaces.
set -eu
root='/local cloud/nodes/i-0a/root'
mkdir "$root"
mount -t tmpfs -o mode=0755,size=16m node "$root"
mkdir "$root/opt"
mkdir "$root"/dev
mount --rbind /dev "$root"/dev
mkdir "$root"/home
mount --rbind /home "$root"/home
mkdir "$root"/usr
mount --rbind /usr "$root"/usr
mkdir "$root"/opt/tools
mount --rbind /opt/tools "$root"/opt/tools
ln -s usr/bin "$root"/bin
mkdir "$root/etc" "$root/var" "$root/run" "$root/proc" "$root/sys"
mount --bind '/local cloud/nodes/i-0a/own/etc' "$root/etc"
mount --bind '/local cloud/nodes/i-0a/own/var' "$root/var"
mount -t tmpfs -o mode=0755 run "$root/run"
mkdir "$root/run/lock" "$root/run/netns"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mkdir -p "$root"/var/cache/tools
mount --rbind /var/cache/tools "$root"/var/cache/tools
if [ -e "$root"/proc/meminfo ]; then mount --bind '/local cloud/nodes/i-0a/meminfo' "$root"/proc/meminfo; fi
cd "$root"
mkdir .machine
pivot_root . .machine
umount -l /.machine
rmdir /.machine
# Mounts must propagate between CSI drivers and the container runtime, in both directions.
mount --make-rshared /
echo ip-10-0-1-7.us-west-2.compute.internal > /proc/sys/kernel/hostname
touch '/local cloud/nodes/i-0a/booted'
sleep infinity &
# Reaps orphaned processes, too.
wait
