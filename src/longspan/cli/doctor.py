"""`longspan doctor`: what is installed and which kernels run here, as text to paste into a report."""

from longspan.cli.errors import UsageError
from longspan.cli.options import AsJson

EXAMPLES = """\
  longspan doctor
  longspan doctor --json"""
OPTIONAL = {
    "plots": ("matplotlib",),
    "bench": ("transformers", "local-attention"),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
}


def doctor(*, as_json: AsJson = False) -> None:
    """Show versions, the processor, and which attention kernels work here.

    Args:
        as_json: print one JSON object.
    """
    try:
        import torch
    except ImportError as error:
        raise UsageError(f"torch cannot be imported: {error}") from error
    import platform

    from longspan.benchmarks import machine

    lines = [
        ("longspan", machine.version_of("longspan") or "not installed"),
        ("python", platform.python_version()),
        ("torch", f"{torch.__version__}{_tiles()}"),
        ("platform", platform.platform()),
        ("cpu", f"{machine.cpu_model()}, {_instruction_sets()}"),
        ("threads", str(torch.get_num_threads())),
        ("gpu", torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none that torch can use"),
        ("native kernel", _native()),
        ("FlexAttention", _flex()),
        *((f"extra [{extra}]", _packages(packages)) for extra, packages in OPTIONAL.items()),
    ]
    if as_json:
        import json

        print(json.dumps(dict(lines)))
        return
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{name:<{width}}  {value}")


def _instruction_sets() -> str:
    from longspan.benchmarks import machine

    present = machine.instruction_sets()
    shown = [f"{name} {'yes' if name in present else 'no'}" for name in machine.INSTRUCTION_SETS]
    return ", ".join(shown)


def _tiles() -> str:
    from longspan.attention import library

    if isinstance(library.KERNEL, library.Kernel) and library.KERNEL.tiles_are_announced_only:
        return ", kept from AMX: this machine announces it without describing its tiles"
    return ""


def _native() -> str:
    from longspan.attention import library

    status = library.status()
    built = f"built for {', '.join(status.built)}" if status.built else "not built"
    if status.available:
        return f"in use with {status.instruction_set} ({built})"
    return f"not available: {status.reason} ({built})"


def _flex() -> str:
    try:
        import torch
        from torch.nn.attention.flex_attention import flex_attention  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        return "not in this torch"
    return "available" if torch.cuda.is_available() else "available, forward only on a CPU"


def _packages(names: tuple[str, ...]) -> str:
    from longspan.benchmarks import machine

    versions = ((name, machine.version_of(name)) for name in names)
    return ", ".join(f"{name} {version or 'not installed'}" for name, version in versions)
