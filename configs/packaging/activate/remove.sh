#!/bin/sh
# Before removal (dpkg says remove, rpm 0), and not before an upgrade: takes out what add.sh has added. Where the last
# line of it is missing, nothing is taken out.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
conf=$(readlink -f /etc/nccl.conf)
[ -e "$conf" ] || exit 0

new=$(mktemp "$conf.XXXXXX")
cp -p "$conf" "$new"
sed '/^# begin of nccl-tuner-go-activate, /{:a;N;/\n# end of nccl-tuner-go-activate$/d;ba}' "$conf" >"$new"
if [ -s "$new" ]; then mv -f "$new" "$conf"; else rm -f "$new" "$conf"; fi
