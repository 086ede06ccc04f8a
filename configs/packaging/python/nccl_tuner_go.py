"""Makes NCCL load the tuner in this process: call enable() before the first NCCL communicator is created.

    import nccl_tuner_go, torch

    nccl_tuner_go.enable(policy="policy.csv")
    torch.distributed.init_process_group("nccl")
"""

import importlib.metadata
import os
import sys
import warnings

__version__ = "@VERSION@"
__all__ = ["enable", "library"]

# The library that NCCL loads, and the same with a client of etcd.
library, _with_etcd = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), f"libnccl-tuner-{name}.so") for name in ("go", "go-etcd")
)

# Arguments of enable() that are files of this machine.
_FILES = {"policy": "CONFIG_FILE", "model": "MODEL_FILE", "topo_file": "TOPO_FILE"}
_OTHERS = (
    "canary compare deterministic files_trust learn learn_budget log metrics record reload rendezvous"
    " rendezvous_trust stall_limit strict"
).split()


def enable(policy=None, model=None, rendezvous=None, **settings):
    """Sets the environment by which NCCL loads the tuner, and returns the variables that it has set.

    policy, model: files. rendezvous: a folder, or etcd://HOST:PORT/JOB. settings: any other NCCL_TUNER_* variable of
    docs/VARIABLES.md, in lower case, as strict=True or compare="nccl"; None and False set nothing. If the ranks meet in
    etcd, NCCL loads the library that has a client of it.

    A variable that the environment has already stays as it is; a RuntimeWarning says so where an argument asks for
    something else. Call it on every rank alike.
    """
    settings.update(policy=policy, model=model, rendezvous=rendezvous)
    unknown = sorted(set(settings) - set(_FILES) - set(_OTHERS))
    if unknown:
        allowed = ", ".join(sorted([*_FILES, *_OTHERS]))
        raise TypeError(f"nccl_tuner_go.enable: unknown setting {unknown[0]!r} (allowed: {allowed})")

    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        raise RuntimeError(
            "nccl_tuner_go.enable: torch.distributed is initialised already, and NCCL may have looked for a tuner:"
            " call enable() before init_process_group()"
        )
    other = os.environ.get("NCCL_TUNER_PLUGIN")
    ours = [os.path.basename(path) for path in (library, _with_etcd)]
    if other not in (None, "go", "go-etcd") and os.path.basename(other) not in ours:
        raise RuntimeError(
            f"nccl_tuner_go.enable: NCCL_TUNER_PLUGIN is set to {other!r}, another tuner, and NCCL loads only one:"
            " unset it, or do not call enable()"
        )

    where = os.environ.get("NCCL_TUNER_RENDEZVOUS", str(rendezvous))
    etcd = where.startswith(("etcd://", "etcds://"))
    if other is None and _release() == "2.27.3":
        raise RuntimeError(
            "nccl_tuner_go.enable: NCCL 2.27.3, which is installed here, loads no tuner by its path: start Python with"
            f" NCCL_TUNER_PLUGIN={'go-etcd' if etcd else 'go'} and LD_LIBRARY_PATH={os.path.dirname(library)}"
        )

    wanted = {"NCCL_TUNER_PLUGIN": _with_etcd if etcd else library}
    asked = {}  # the arguments, by variable
    for name, value in settings.items():
        if value is None or value is False:
            continue
        value = "1" if value is True else os.fspath(value) if hasattr(value, "__fspath__") else str(value)
        if name in _FILES:
            value = os.path.abspath(value)
            if not os.path.isfile(value):
                raise FileNotFoundError(f"nccl_tuner_go.enable: {name}: there is no file {value}")
        variable = "NCCL_TUNER_" + _FILES.get(name, name.upper())
        wanted[variable], asked[variable] = value, name
    for variable, name in asked.items():
        value, there = wanted[variable], os.environ.get(variable)
        if there not in (None, value) and not (name in _FILES and os.path.abspath(there) == value):
            warnings.warn(
                f"nccl_tuner_go.enable: {name}={value} has no effect: {variable} is set to {there!r} already",
                RuntimeWarning,
                stacklevel=2,
            )
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    return added


def _release():
    """The release of NCCL that PyTorch's packages for CUDA 12 bring; None where they are not installed."""
    try:
        return importlib.metadata.version("nvidia-nccl-cu12")
    except importlib.metadata.PackageNotFoundError:
        return None
