#!/bin/sh
# Checks the models of the agreement with Spin: each must hold, each mutation of it must fail.
# Needs spin (6.5) and a C compiler. Two runs at a time; about two minutes.
set -u
cd "$(dirname "$0")" || exit 1
for tool in spin "${CC:-gcc}"; do
	command -v "$tool" >/dev/null || { echo "verify: $tool is not installed; it is needed to check the models (apt install spin gcc)" >&2; exit 1; }
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
here=$PWD

# check holds|fails MODEL DEFINES...: searches all states and prints one line.
check() {
	want=$1 model=$2
	shift 2
	dir=$(mktemp -d "$work/run.XXXXXX")
	line=$(printf '%-13s %s' "$model" "$*")
	ends=
	optimise=-O2
	[ "$want" = fails ] && optimise=-O0 # a mutation fails soon; the compiler takes longer than the search
	[ "$model" = vanish.pml ] && ends=-E # its faults never end
	if ! (cd "$dir" && spin -a "$@" "$here/$model" && "${CC:-gcc}" $optimise -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c && ./pan -n -m1000000 $ends) >"$dir/out" 2>&1; then
		echo "BROKEN $line: $(tail -1 "$dir/out")"
		return
	fi
	states=$(awk '/states, stored/ {print $1}' "$dir/out")
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$dir/out")
	full=yes
	grep -q 'Search not completed\|max search depth too small\|out of memory' "$dir/out" && full=no
	case $want/$errors/$full in
	holds/0/yes) verdict="ok     $line: holds, all $states states" ;;
	fails/[1-9]*) verdict="ok     $line: fails, as it must" ;;
	*) verdict="WRONG  $line: must be \"$want\"; errors ${errors:-?}, states ${states:-?}, complete: $full" ;;
	esac
	echo "$verdict"
	rm -rf "$dir"
}

runs='
holds agreement.pml -DR=3 -DN=5 -DCRASH=1 -DLOST=1
holds agreement.pml -DR=2 -DN=7 -DK=2
holds agreement.pml -DPH=3 -DONEEACH
holds agreement.pml -DR=2 -DN=7 -DPH=3 -DOTHER
fails agreement.pml -DR=2 -DN=6 -DPH=2 -DOTHER -DM_NOALL
fails agreement.pml -DR=2 -DN=6 -DPH=2 -DOTHER -DREACHPH
fails agreement.pml -DR=2 -DN=6 -DPH=2
fails agreement.pml -DR=2 -DN=6 -DPH=2 -DW=6
fails agreement.pml -DR=2 -DM_NOHASH
fails agreement.pml -DR=2 -DM_NOSHAPES
fails agreement.pml -DR=2 -DM_NOCOUNT
fails agreement.pml -DR=2 -DM_NOCHANGE
fails agreement.pml -DR=2 -DM_EARLY
fails agreement.pml -DR=2 -DM_LOCALABORT
fails agreement.pml -DR=2 -DM_DELETE
fails agreement.pml -DR=2 -DM_TWICE
fails agreement.pml -DR=2 -DM_STUCK
fails agreement.pml -DR=2 -DN=6 -DM_SCHEDULE
holds agreement.pml -DR=2 -DN=6 -DM_SCHEDULE -DPH=0
fails agreement.pml -DR=2 -DREACH=1
fails agreement.pml -DR=2 -DN=7 -DK=2 -DREACH=2
fails agreement.pml -DR=2 -DREACHPH
holds vanish.pml
holds vanish.pml -DR=2 -DRULE6 -DDLAST
holds vanish.pml -DRULE6 -DATONCE
fails vanish.pml -DRULE6
fails vanish.pml -DRULE6 -DATONCE -DM_NOCHECK
fails vanish.pml -DM_NOMARK
fails vanish.pml -DM_SEEN
fails vanish.pml -DM_NONAME
fails vanish.pml -DREACH
fails vanish.pml -DREACHOLD
holds barrier.pml -DCFG=1 -DN=4
holds barrier.pml -DCFG=1 -DSYNC
holds barrier.pml -DCFG=2 -DGROUP=1
holds barrier.pml -DCFG=2 -DGROUP=2
holds barrier.pml -DCFG=2 -DGROUP=2 -DSYNC
holds barrier.pml -DCFG=2 -DGROUP=2 -DPROP=2
holds barrier.pml -DCFG=2 -DALONE
holds barrier.pml -DCFG=2 -DALONE -DGROUP=2
holds barrier.pml -DCFG=3 -DN=5
holds barrier.pml -DCFG=2 -DM_NOPROXY -DREACH
fails barrier.pml -DCFG=1 -DM_NOBOUND -DALLPROM -DPH=0
fails barrier.pml -DCFG=2 -DGROUP=2 -DM_NOBOUND -DALLPROM -DPH=0
fails barrier.pml -DCFG=2 -DALONE -DM_PROXYANY
fails barrier.pml -DCFG=2 -DALONE -DM_PROXYHASH
fails barrier.pml -DCFG=2 -DGROUP=2 -DM_PROXYGROUP
fails barrier.pml -DCFG=2 -DM_GIVEUP
fails barrier.pml -DCFG=1 -DREACH
fails barrier.pml -DCFG=2 -DREACH
fails barrier.pml -DCFG=2 -DGROUP=2 -DREACH
holds join.pml -DN=4
holds join.pml -DN=2 -DCLEANED
fails join.pml -DN=4 -DM_ALONE
fails join.pml -DN=2 -DCLEANED -DM_HOLD
fails join.pml -DN=2 -DCLEANED -DLATE
fails join.pml -DN=4 -DM_NAMES
fails join.pml -DN=4 -DM_NOWALK
fails join.pml -DN=4 -DM_BESIDE
fails join.pml -DN=4 -DREACH
fails join.pml -DN=4 -DREACHDUP
holds ending.pml
fails ending.pml -DM_NOCHECK
fails ending.pml -DM_NOGUARD
fails ending.pml -DM_LATE
fails ending.pml -DM_REUSE
fails ending.pml -DREACH
fails ending.pml -DREACHDUP
'

# Every second run goes to the other core.
half() {
	echo "$runs" | sed '/^$/d' | awk "NR % 2 == $1" | while read -r want model defines; do
		check "$want" "$model" $defines
	done
}
half 0 >"$work/zero" &
half 1 | tee "$work/one"
wait
cat "$work/zero"
if grep -hq '^WRONG\|^BROKEN' "$work/zero" "$work/one"; then
	echo "verify: the models do not say what docs/dev/PROTOCOL.md says of them" >&2
	exit 1
fi
