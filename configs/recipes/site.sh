#!/bin/sh
# Prepares SITE for the jobs of all users. Root runs it, or else the owner of SITE; again for another USER.
#   site.sh SITE         who runs it pushes policies
#   site.sh SITE USER    USER does, and decides for all jobs: a colleague, or an account for those who push
# docs/OPERATIONS.md says who owns what, and why.
set -eu
umask 022
site=${1:?needed: SITE, and who pushes if it is not you}
me=$(id -un)
user=${2:-$me}
mkdir -p "$site"
cd "$site"
chown "$me" .
chmod 755 .
# Each job makes a folder of its own in it, which no other user can remove.
install -d -o "$me" -m 1777 live
# The first policy leaves all to NCCL.
[ -e policy.csv ] || printf 'collective,algorithm\n*,default\n' >policy.csv
[ "$user" != root ] || [ -d policy ] || exit 0

# Who pushes makes files in the policy's folder. It is not SITE, because there he could replace the library.
install -d -o "$user" -g "$(id -g "$user")" -m 755 policy
# USER's own rights make the copy, because others may have put links into the folder.
as=
[ "$user" = "$me" ] || as="setpriv --reuid $(id -u "$user") --regid $(id -g "$user") --clear-groups"
$as sh -c 'rm -f policy/.new && cp policy.csv policy/.new && mv -T policy/.new policy/policy.csv'
ln -sfn policy/policy.csv policy.csv
