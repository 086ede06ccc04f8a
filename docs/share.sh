#!/usr/bin/env bash
# share.sh MANUAL DIR PAGE...: makes DIR what `make install` puts into share/: the manual pages and completions of tunefit,
# which the program MANUAL writes, the manual page of the library, which the page of variables tells, the users' pages and
# their pictures, the licence, recipes and policies.
set -euo pipefail
manual=$(realpath "$1") dir=$2
shift 2
cd "$(dirname "$0")/.."
rm -rf "$dir"
mkdir -p "$dir"/{doc/nccl-tuner-go,nccl-tuner-go,man/man7}
"$manual" "$dir"

page=$(grep -l '^| `NCCL_TUNER_CONFIG_FILE' README.md docs/*.md)
{
	printf '.TH LIBNCCL-TUNER-GO 7 "" "nccl-tuner-go %s"\n' "$(sed -n 's/^const Release = "\(.*\)"$/\1/p' tuner/comm.go)"
	printf '.SH NAME\nlibnccl\-tuner\-go \- a tuner plugin of NCCL that decides by a policy\n'
	printf '.SH DESCRIPTION\nNCCL loads the library that\n.B NCCL_TUNER_PLUGIN\nnames. It reads these variables:\n.SH ENVIRONMENT\n'
	# A row of the table: its name, its meaning without links and marks.
	sed -n '/^| `NCCL_/{s/\[\([^]]*\)\]([^)]*)/\1/g; s/`//g; s/^| //; s/ |$//; s/-/\\-/g; s/^\(.*\) | \(.*\)/.TP\n.B \1\n\2/p}' "$page"
	printf '.SH SEE ALSO\n.BR tunefit (1)\n'
} >"$dir/man/man7/libnccl-tuner-go.7"

cp --parents LICENSE "$@" "$dir/doc/nccl-tuner-go"
cp -R configs/recipes configs/policies "$dir/nccl-tuner-go"

# Links lead to where the files are now. One to a file that is not installed becomes its text, which may span two lines.
find "$dir" -name '*.md' | while read -r page; do
	sed -Ei -e 's,\]\(((\.\./)*)configs/(recipes|policies),](\1../../nccl-tuner-go/\3,g' \
		-e 's,\]\(\.\./\.\./docs/,](../../doc/nccl-tuner-go/docs/,g' "$page"
	{ grep -Eo '\]\([^)# ]+' "$page" || true; } | cut -c3- | sort -u | while read -r to; do
		case $to in *://*) continue ;; esac
		[ -e "$(dirname "$page")/$to" ] || sed -Ezi "s,!?\[([^][]*)\]\($to(#[^)]*)?\),\1,g" "$page"
	done
done
