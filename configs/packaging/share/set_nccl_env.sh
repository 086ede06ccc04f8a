# Makes NCCL load the tuner in what this shell starts:
#   . /opt/nccl-tuner-go/share/set_nccl_env.sh
# A variable that is set stays as it is. Only bash can tell where the file is; other shells take it to be there.
_root=/opt/nccl-tuner-go
[ -z "${BASH_SOURCE-}" ] || _root=$(cd "$(dirname "$BASH_SOURCE")/.." && pwd)
export NCCL_TUNER_PLUGIN="${NCCL_TUNER_PLUGIN-$_root/lib/libnccl-tuner-go.so}"
if [ -r /etc/nccl-tuner-go/policy.csv ]; then
	export NCCL_TUNER_CONFIG_FILE="${NCCL_TUNER_CONFIG_FILE-/etc/nccl-tuner-go/policy.csv}"
fi
unset _root
