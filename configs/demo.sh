#!/bin/sh
# What `make demo` shows, given the build folder: from measurements to a policy, and the policy in a running job.
# It needs no GPU. It fails where the machine is too busy for the job's ranks to agree.
set -eu
build=$1
demo=$build/demo
unset $(env | sed -n 's/^\(NCCL[A-Z_0-9]*\)=.*/\1/p')
rm -rf "$demo"
mkdir -p "$demo"

step() { printf '\n== %s\n\n' "$1"; }

step "1. Fit a policy to published measurements of four RTX A6000 (docs/measured/README.md)"
echo "\$ tunefit fit docs/measured/a6000-allreduce.csv --csv learned.csv -o model.json --report report.html"
"$build/tunefit" fit docs/measured/a6000-allreduce.csv --csv "$demo/learned.csv" -o "$demo/model.json" \
	--report "$demo/report.html" >"$demo/fit.txt" 2>"$demo/fit.err" ||
	{ cat "$demo/fit.err"; exit 1; }
sed -n '/use it/p' "$demo/fit.txt"

step "2. See what it decides"
echo "\$ tunefit show learned.csv --model model.json --coll allreduce --comm 1x4"
"$build/tunefit" show "$demo/learned.csv" --model "$demo/model.json" --coll allreduce --comm 1x4 2>"$demo/show.err" ||
	{ cat "$demo/show.err"; exit 1; }

step "3. Give it to a running job: four processes load the library as NCCL does, and make 500 calls a second"
printf 'collective,algorithm\n*,default\n' >"$demo/policy.csv"
ranks=""
for rank in 0 1 2 3; do
	(echo go; until [ -e "$demo/over" ]; do sleep 0.1; done; echo end) |
		NCCL_TUNER_CONFIG_FILE=$demo/policy.csv NCCL_TUNER_LOG=decisions "$build/rank" "$build/libnccl-tuner-go.so" \
			"$demo/calls.$rank" ranks=4 rate=500 skew=5 calls=100000 id=$rank "seed=$$" \
			>"$demo/rank.$rank.txt" 2>"$demo/rank.$rank.log" &
	ranks="$ranks $!"
done
logged() { cat "$demo"/rank.*.log | grep -c "$1" || true; }
# await TEXT: until all four ranks have logged it. A busy machine may take 30 s.
await() {
	for tenth in $(seq 300); do
		[ "$(logged "$1")" -lt 4 ] || return 0
		sleep 0.1
	done
	touch "$demo/over"
	echo "This machine is too busy: in 30 s not all four ranks logged \"$1\". Run make demo again when it is idle."
	exit 1
}
await 'decision .*coll=allreduce size=1MiB'
cp "$demo/learned.csv" "$demo/.new"
mv "$demo/.new" "$demo/policy.csv"
await 'is active from call'
sleep 1
touch "$demo/over"
for pid in $ranks; do
	wait "$pid" || { echo "a rank failed:"; tail -n 3 "$demo"/rank.*.log; exit 1; }
done
echo "The job starts with a policy that leaves all to NCCL. Then learned.csv is saved over it. Rank 0 logs:"
echo
sed -n "s|$demo/||; s/^[0-9]* INFO \(TUNER.Go: decision .*coll=allreduce size=1MiB.*\)/  \1/p
	s/^[0-9]* INFO \(TUNER.Go: .*change [0-9]*: version .* is active .*\) \[rank index.*/  \1/p" "$demo/rank.0.log"
# Of each call, its number aside, the collective, its size and what was decided: see internal/testkit/testhost/rank_log.h.
count=$(for rank in 0 1 2 3; do od -An -tu8 -N8 "$demo/calls.$rank"; done | sort -n | head -n 1 | tr -d ' ')
decided() { od -An -v -tx1 -w24 -j256 -N$((count * 24)) "$demo/calls.$1" | cut -c1-21 | cksum; }
for rank in 1 2 3; do
	[ "$(decided 0)" = "$(decided $rank)" ] || { echo "rank $rank decided otherwise than rank 0"; exit 1; }
done
cat <<END

All four ranks decided each of $count calls alike: none by two versions.

== The picture to open

$demo/report.html, in a browser: what was measured, what the policy takes, and what it gains.
END
