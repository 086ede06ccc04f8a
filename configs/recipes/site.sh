#!/bin/sh
# Prepares SITE for the jobs of all users; root runs it, again after a change. docs/SITE.md says who owns what.
#   site.sh /shared/tuner          root pushes policies
#   site.sh /shared/tuner ALICE    alice, or an account for those who push, does so, and decides for all jobs
set -eu
umask 022
site=${1:?needed: SITE, and who pushes unless root does}
mkdir -p "$site"
cd "$site"
chown root:root .
chmod 755 .
# Each job makes a folder of its own in it, which only its user can remove.
install -d -o root -g root -m 1777 live
# The first policy leaves all to NCCL.
[ -e policy.csv ] || printf 'collective,algorithm\n*,default\n' >policy.csv
[ $# -gt 1 ] || exit 0

# To push is to make a file in the policy's folder. So it gets one: who could make files in SITE could replace the library.
install -d -o "$2" -g "$(id -g "$2")" -m 755 policy
# The copy is made with the rights of that user alone, who may have put a link into the folder.
setpriv --reuid "$(id -u "$2")" --regid "$(id -g "$2")" --clear-groups \
	sh -c 'cp policy.csv policy/.new && mv policy/.new policy/policy.csv'
ln -sfn policy/policy.csv policy.csv
