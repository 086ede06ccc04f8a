#!/bin/sh
# What `make demo` shows, given the build folder and which half: "live" changes a policy
# during a run, "learn" goes from measurements to decisions. It needs no GPU.
set -eu
build=$1
demo=$build/demo
unset NCCL_TUNER_CONFIG_FILE NCCL_TUNER_MODEL_FILE NCCL_TUNER_TOPO_FILE NCCL_TUNER_STRICT NCCL_TUNER_LOG \
	NCCL_TUNER_RELOAD NCCL_TUNER_RENDEZVOUS NCCL_TUNER_STALL_LIMIT NCCL_TUNER_METRICS

step() { printf '\n== %s\n\n' "$1"; }

if [ "$2" = live ]; then
rm -rf "$demo"
mkdir -p "$demo"
step "1. Change a policy during a run: 8 processes play the ranks of a job, 1000 collectives a second each"
policy() { printf '%s\n' 'collective,min_bytes,max_bytes,algorithm,protocol,channels' "allreduce,0,inf,ring,simple,$1"; }
policy 24 >"$demo/live.csv"
ranks=""
for rank in 0 1 2 3 4 5 6 7; do
	(echo go; until [ -e "$demo/over" ]; do sleep 0.1; done; echo end) |
		NCCL_TUNER_CONFIG_FILE=$demo/live.csv NCCL_TUNER_LOG=decisions "$build/rank" "$build/libnccl-tuner-go.so" \
			"$demo/calls.$rank" ranks=8 rate=1000 skew=5 calls=100000 id=$rank "seed=$$" >"$demo/rank.$rank.txt" 2>"$demo/rank.$rank.log" &
	ranks="$ranks $!"
done
sleep 1
policy 16 >"$demo/new.csv"
mv "$demo/new.csv" "$demo/live.csv"
# As many tenths of a second as a busy machine may take.
for tenth in $(seq 200); do
	[ "$(cat "$demo"/rank.*.log | grep -c 'is active from call')" -lt 8 ] || break
	sleep 0.1
done
sleep 0.5
touch "$demo/over"
for pid in $ranks; do
	wait "$pid" || { echo "  a rank failed:"; tail -n 3 "$demo"/rank.*.log; exit 1; }
done
echo "The policy says 24 channels for allreduce; after a second, a file that says 16 is saved over it. Rank 0 logs:"
echo
if grep -q 'is active from call' "$demo/rank.0.log"; then
	sed -n "s|$demo/||; s/^[0-9]* INFO TUNER.Go: \(allreduce 1MiB.*\)/  \1/p; s/^[0-9]* INFO TUNER.Go: communicator [^:]*: \(change.*\) \[rank index.*/  \1/p" "$demo/rank.0.log"
else
	echo "  The machine was too busy for the ranks to agree within 20 s: they went on as before."
fi
# Of each call, its number aside, the collective, its size and what was decided: see
# internal/testkit/testhost/rank_log.h.
count=$(for rank in 0 1 2 3 4 5 6 7; do od -An -tu8 -N8 "$demo/calls.$rank"; done | sort -n | head -n 1 | tr -d ' ')
decided() { od -An -v -tx1 -w24 -j256 -N$((count * 24)) "$demo/calls.$1" | cut -c1-21 | cksum; }
alike=0
for rank in 0 1 2 3 4 5 6 7; do
	[ "$(decided 0)" = "$(decided $rank)" ] && alike=$((alike + 1))
done
echo
echo "$alike of 8 ranks decided each of $count collectives alike: none by two versions."
[ $alike = 8 ]
exit
fi

policy=$demo/learned.csv
model=$demo/model.json

step "2. Measurements: nccl-tests, run once for each algorithm, protocol and channel count"
for sweep in configs/sweeps/*.csv; do
	echo "  $sweep: $(($(wc -l <"$sweep") - 1)) rows"
done
echo "  (Simulated ones, for lack of a cluster here: an HGX H100, on one and on two nodes.)"

step "3. Learn from them: tunefit fit configs/sweeps/*.csv --made-with 2.28.9 -o model.json --csv learned.csv ..."
"$build/tunefit" fit configs/sweeps/*.csv -o "$model" --csv "$policy" --report "$demo/report.html" \
	--made-with 2.28.9 >"$demo/fit.txt" 2>"$demo/fit.err" || { cat "$demo/fit.err"; exit 1; }
cat "$demo/fit.txt"
echo
echo "What is sure of it became rows of a policy:"
echo
grep -v '^#' "$policy" | sed -n '1,4s/^/  /p'
echo "  ... $(($(grep -vc '^#' "$policy") - 1)) rows in all"

step "4. Check before a job runs on it: tunefit check learned.csv"
"$build/tunefit" check "$policy" >"$demo/check.txt" || echo "  (Exit code 1: there are errors or warnings.)"
sed "s|$demo/||" "$demo/check.txt" | fold -s -w 98

step "5. See what a job would get: rows first, then the model, then NCCL: tunefit show learned.csv --model ..."
"$build/tunefit" show "$policy" --model "$model" --coll allreduce,reducescatter --comm 1x8,2x8 \
	--sizes 1K,64K,256K,2M,16M,256M
echo
echo "Gain: what the model expects, - is none. Channels: - is NCCL's own count."
echo "The simulated cluster runs NCCL 2.28.9, and so rows and model are for 2.28. Other releases get their own choice:"
echo "from 2.31 on NCCL takes only counts below its own. Measure with the release that the jobs run."

here=$(cd "$build" && pwd)
cat <<END

== What to do next

  Look around:   open $demo/report.html in a browser
                 $build/tunefit explain allreduce 2M --comm 2x8 \\
                     --policy $policy --model $model
  Measure yours: $build/tunefit sweep --coll allreduce --comm 1x8 -o sweep
                 (runs nccl-tests; --dry-run says what and how long)
  Use it:        export NCCL_TUNER_PLUGIN=$here/libnccl-tuner-go.so
                 export NCCL_TUNER_CONFIG_FILE=/path/to/your/learned.csv
                 export NCCL_TUNER_MODEL_FILE=/path/to/your/model.json
  Try it in jobs: export NCCL_TUNER_COMPARE=nccl
                 (a faster collective is often no faster job: the job itself compares)
END
