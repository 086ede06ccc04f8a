#!/bin/sh
# compare.sh REV ROUNDS BUILD BENCH EMPTY.so: runs the benchmarks of a commit and of this tree in turns, so that a slow
# moment of the machine hits both. It leaves BUILD/compare/before and after, for benchstat.
set -eu
rev=$1 rounds=$2 build=$3 bench=$4 empty=$5
[ -n "$rev" ] || { echo "REV names no commit (needed: make bench-compare REV=HEAD~1)" >&2; exit 1; }
there=$build/compare/tree
git worktree remove --force "$there" 2>/dev/null || true
rm -rf "$build/compare"
mkdir -p "$build/compare"
git worktree add --detach "$there" "$rev" >&2
trap 'git worktree remove --force "$there"' EXIT
make -C "$there" BUILD=build build/libnccl-tuner-go.so >&2

# one TREE LIBRARY RESULTS: the program that times calls is this tree's for both.
one() {
	"$bench" --brief "$2" "$empty" | grep -v /empty >> "$3"
	(cd "$1" && go test -run '^$' -bench . -skip '^BenchmarkWorst' -benchtime 0.1s ./policy/... ./topo/... ./bench/...) | grep -v '^ok' >> "$3"
}
for i in $(seq "$rounds"); do
	echo "round $i of $rounds"
	one "$there" "$there/build/libnccl-tuner-go.so" "$build/compare/before"
	one . "$build/libnccl-tuner-go.so" "$build/compare/after"
done
