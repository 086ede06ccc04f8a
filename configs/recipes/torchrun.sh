#!/bin/sh
# Starts torchrun on one node, with NCCL deciding by a policy that may be edited during the run. On every node alike:
#   JOB=run7 NODES=4 MASTER=node1 ./torchrun.sh train.py ...
# To change the policy of all such jobs: tunefit push new.csv --to $SITE/policy.csv --rendezvous $SITE/live
# SITE is a folder that all nodes see: `make install PREFIX=$SITE`, and the policy beside it. Where several users share
# it, site.sh prepares it: docs/OPERATIONS.md.
set -eu
SITE=${SITE:-/shared/tuner}

# With NCCL_TUNER_PLUGIN=none in the environment the job runs without the tuner.
export NCCL_TUNER_PLUGIN="${NCCL_TUNER_PLUGIN:-$SITE/lib/libnccl-tuner-go.so}"
export NCCL_TUNER_CONFIG_FILE="$SITE/policy.csv"
# A policy that is missing or faulty ends the job at once, and not unseen. Without this line NCCL then decides by itself.
export NCCL_TUNER_STRICT=1
# Only root and you may decide for your job, unless the owner of SITE lets another user: site.sh makes this link then.
[ "$(readlink "$SITE/policy.csv")" != policy/policy.csv ] || export NCCL_TUNER_FILES_TRUST=1
# Where the ranks agree on the call from which an edit is active: of this job, and of this user, only. When the job is over, remove it.
export NCCL_TUNER_RENDEZVOUS="$SITE/live/$JOB"
# shellcheck disable=SC2174 # the mode is meant for the last folder only
if ! mkdir -p "$SITE/live" || ! mkdir -p -m 700 "$NCCL_TUNER_RENDEZVOUS"; then
	echo "the ranks have no place to meet. Ask the owner of $SITE to run $SITE/share/nccl-tuner-go/recipes/site.sh" >&2
	exit 1
fi
# Below WARN, NCCL does not show what the tuner has to say. INFO has a line for each communicator: what it runs on.
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"

exec torchrun --nnodes="$NODES" --nproc-per-node="${GPUS:-8}" --rdzv-id="$JOB" --rdzv-backend=c10d --rdzv-endpoint="$MASTER:${PORT:-29500}" "$@"
