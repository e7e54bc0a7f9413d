#!/bin/sh
# Boots systemd in namespaces of its own, beside whatever else runs on this machine:
#
#   systemd.sh PROGRAM    prints `ready PID` when it runs, and ends it at the end of standard input
#   systemd.sh --probe    succeeds if it can be booted here
#
# PID is its first process. /etc/systemd, /run, /srv, /tmp, /var/lib, /var/log and /var/tmp are empty file systems of its
# own, /dev has no device of the hardware, and PROGRAM is /run/drydock-test/drydock. The root file system and the settings of
# the kernel are read-only; the network is that of the machine. It ends with this script, however that ends.
set -u

SYSTEMD=/usr/lib/systemd/systemd

# Prepares the file systems in the new namespaces, and becomes systemd.
boot() {
  set -e
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 tmpfs /etc/systemd
  mkdir /etc/systemd/system /etc/systemd/dev
  # First, because it may be below a directory that is replaced.
  if [ -n "$1" ]; then
    : >/etc/systemd/program
    mount --bind "$1" /etc/systemd/program
  fi
  # systemd resets the console, and removes shared memory of the users of its services.
  mount -t tmpfs -o mode=755 tmpfs /etc/systemd/dev
  for device in null zero full random urandom tty; do
    : >"/etc/systemd/dev/$device"
    mount --bind "/dev/$device" "/etc/systemd/dev/$device"
  done
  mkdir /etc/systemd/dev/pts /etc/systemd/dev/shm
  ln -s pts/ptmx /etc/systemd/dev/ptmx
  mount --move /etc/systemd/dev /dev
  for directory in /run /srv /var/lib /var/log; do
    mount -t tmpfs -o mode=755 tmpfs "$directory"
  done
  for directory in /tmp /var/tmp; do
    mount -t tmpfs -o mode=1777 tmpfs "$directory"
  done
  mkdir -p /run/drydock-test /run/systemd/journald.conf.d /var/log/journal
  if [ -n "$1" ]; then
    : >/run/drydock-test/drydock
    mount --bind /etc/systemd/program /run/drydock-test/drydock
  fi
  mount -o bind,ro /proc/sys /proc/sys
  mount -o bind,ro /sys /sys
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mount -o remount,bind,ro /
  # Credentials reach a service through a mount that is shared.
  mount --make-rshared /
  # Only these units exist.
  cd /usr/lib/systemd/system
  cp systemd-journald.service systemd-journald.socket basic.target sysinit.target sockets.target shutdown.target \
    network-online.target multi-user.target /etc/systemd/system
  cat >/etc/systemd/system/drydock-test.target <<'UNIT'
[Unit]
Description=What a service needs
DefaultDependencies=no
Wants=systemd-journald.service
UNIT
  cat >/run/systemd/journald.conf.d/drydock-test.conf <<'CONF'
[Journal]
Storage=persistent
ReadKMsg=no
Audit=no
CONF
  exec env -i PATH="$PATH" container=drydock-test SYSTEMD_UNIT_PATH=/etc/systemd/system \
    SYSTEMD_GENERATOR_PATH=/run/drydock-test/none "$SYSTEMD" --system --unit=drydock-test.target \
    --log-target=journal --log-level=warning --show-status=no
}

if [ "${1:-}" = --boot ]; then
  boot "$2"
fi

program=${1:-}
if [ "$program" = --probe ]; then program=; fi
if [ "$(id -u)" -ne 0 ] || [ ! -x "$SYSTEMD" ]; then
  echo "this needs root and $SYSTEMD" >&2
  exit 1
fi

# A control group of its own, below that of this shell.
mounted=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
if [ -z "$mounted" ]; then
  echo 'there are no control groups of version 2' >&2
  exit 1
fi
groups="$mounted${own%/}/drydock-test"
group="$groups-$$"

remove_group() {
  find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
}

# A script that was killed leaves its group.
for left in "$groups"-*; do
  if [ ! -d "/proc/${left##*-}" ]; then remove_group "$left"; fi
done
remove_group "$group"
mkdir "$group" || exit 1

child=
# shellcheck disable=SC2317
finish() {
  if [ -n "$child" ]; then
    kill -KILL "$child" 2>/dev/null
    wait "$child" 2>/dev/null
  fi
  tries=0
  while [ -d "$group" ] && [ "$tries" -lt 200 ]; do
    remove_group "$group"
    tries=$((tries + 1))
    sleep 0.02
  done
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

# `unshare` is killed when this script has ended, and its child with it.
sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" \
  setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount --uts --ipc --cgroup --mount-proc \
  "$0" --boot "$program" </dev/null >&2 &
child=$!

tries=0
while [ "$tries" -lt 300 ]; do
  first=$(tr -d ' ' 2>/dev/null <"/proc/$child/task/$child/children")
  if [ -n "$first" ] && [ "$(readlink "/proc/$first/exe")" = "$(readlink -f "$SYSTEMD")" ] &&
    nsenter --all --target "$first" sh -c 'systemctl is-active --quiet systemd-journald.service && journalctl --flush' 2>/dev/null; then
    if [ "${1:-}" = --probe ]; then exit 0; fi
    echo "ready $first"
    cat >/dev/null
    exit 0
  fi
  if ! kill -0 "$child" 2>/dev/null; then break; fi
  tries=$((tries + 1))
  sleep 0.05
done
echo 'systemd did not start' >&2
exit 1
