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
fail() { echo "site.sh: $*" >&2; exit 1; }
id -u "$user" >/dev/null 2>&1 || fail "there is no user $user here"
mkdir -p "$site" || fail "$me cannot make $site: root runs this, or who may write to the folder above it"
cd "$site"
[ "$me" = root ] || [ -O . ] || fail "$site belongs to $(stat -c %U .), and $me is neither that user nor root: one of them runs this"
[ "$me" = root ] || [ "$user" = "$me" ] || fail "only root can let $user push: without USER, $me pushes"
chown "$me" . || fail "root has no rights in $site, as with root_squash: $(stat -c %U .), who owns it, runs this"
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
