#!/bin/sh
# What `make demo` shows, given the build folder.
set -eu
build=$1
policy=configs/policies/example.csv

echo "A policy is a CSV file; the first row that matches a collective decides it ($policy):"
echo
grep -v '^#' "$policy" | sed 's/^/  /'
echo
echo "libnccl-tuner-go.so, loaded and asked through NCCL's plugin ABI, makes of it:"
echo
"$build/tunefit" show "$policy" --coll allreduce,allgather --comm 1x8,2x8,4x8 --sizes 4K-4G
echo
echo "NCCL alone: NCCL 2.30.7's cost model for an HGX H100. Use the library with:"
echo "  export NCCL_TUNER_PLUGIN=$(cd "$build" && pwd)/libnccl-tuner-go.so NCCL_TUNER_CONFIG_FILE=$PWD/$policy"
