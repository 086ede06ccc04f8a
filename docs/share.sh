#!/usr/bin/env bash
# share.sh TUNEFIT DIR PAGE...: makes DIR what `make install` puts into share/: manual pages and completions, which TUNEFIT
# and the page of variables tell, the users' pages and their pictures, the licence, recipes and policies.
set -euo pipefail
tunefit=$(realpath "$1") dir=$2
shift 2
cd "$(dirname "$0")/.."
rm -rf "$dir"
mkdir -p "$dir"/{doc/nccl-tuner-go,nccl-tuner-go,man/man1,man/man7,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}

# Text as it is, in a manual page.
verbatim() {
	echo .nf
	sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
	echo .fi
}
header() { printf '.TH %s %s "" "nccl-tuner-go %s"\n.SH NAME\n%s\n' "$1" "$2" "$("$tunefit" --version | awk '{print $NF}')" "$3"; }
# The help of a command, then of those below it.
commands() {
	local name help
	help=$("$tunefit" "$@" --help)
	printf '.SH "tunefit%s"\n' "${*:+ $*}"
	verbatim <<<"$help"
	for name in $(sed -n 's/^  \([a-z]\+\)  \+[A-Z].*/\1/p' <<<"$help" | grep -vx -e help -e completion); do commands "$@" "$name"; done
}
{
	header TUNEFIT 1 'tunefit \- learn, check and compare policies of libnccl\-tuner\-go.so'
	commands
	printf '.SH SEE ALSO\n.BR libnccl\\-tuner\\-go (7)\n'
} >"$dir/man/man1/tunefit.1"

page=$(grep -l '^| `NCCL_TUNER_CONFIG_FILE' README.md docs/*.md)
{
	header LIBNCCL-TUNER-GO 7 'libnccl\-tuner\-go \- a tuner plugin of NCCL that decides by a policy'
	printf '.SH DESCRIPTION\nNCCL loads the library that\n.B NCCL_TUNER_PLUGIN\nnames. It reads these variables:\n.SH ENVIRONMENT\n'
	# A row of the table: its name, its meaning without links and marks.
	sed -n '/^| `NCCL_/{s/\[\([^]]*\)\]([^)]*)/\1/g; s/`//g; s/^| //; s/ |$//; s/-/\\-/g; s/^\(.*\) | \(.*\)/.TP\n.B \1\n\2/p}' "$page"
	printf '.SH SEE ALSO\n.BR tunefit (1)\n'
} >"$dir/man/man7/libnccl-tuner-go.7"

"$tunefit" completion bash >"$dir/bash-completion/completions/tunefit"
"$tunefit" completion zsh >"$dir/zsh/site-functions/_tunefit"
"$tunefit" completion fish >"$dir/fish/vendor_completions.d/tunefit.fish"
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
