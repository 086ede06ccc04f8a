#!/bin/bash
# Makes NCCL load the tuner in every task of Slurm, which sets what this prints. In slurm.conf:
#   TaskProlog=/opt/nccl-tuner-go/share/task_prolog.sh
# What the user has set stays.
. "$(dirname "$0")/set_nccl_env.sh"
echo "export NCCL_TUNER_PLUGIN=$NCCL_TUNER_PLUGIN"
[ -z "$NCCL_TUNER_CONFIG_FILE" ] || echo "export NCCL_TUNER_CONFIG_FILE=$NCCL_TUNER_CONFIG_FILE"
