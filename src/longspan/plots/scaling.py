"""Time and memory against length, as in figure 1 of the Longformer paper: two panels, log-log."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from longspan.plots.style import BLUE, BROWN, FAINT, GREEN, GREY, ORANGE, PAPER, PURPLE, RC, RED, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour, marker, line style: no two lines differ by colour alone.
LINES = {
    "native": (BLUE, "o", "-"),
    "blocked": (SKY, "s", "-"),
    "hf": (ORANGE, "^", "-"),
    "hf-mask": (RED, "v", "-"),
    "sdpa-full": (GREY, "D", "--"),
    "sdpa-band": (PURPLE, "P", "--"),
    "flex": (GREEN, "X", "-"),
    "local-attention": (BROWN, "p", "-"),
    "loop": ("#000000", "*", ":"),
}
LINES_OF_KINDS = {
    "full": (GREY, "D", "--"),
    "window": (BLUE, "o", "-"),
    "linformer": (ORANGE, "^", "-"),
    "linformer-package": (ORANGE, "v", ":"),
    "performer": (GREEN, "X", "-"),
    "performer-package": (GREEN, "x", ":"),
    "sparse": (PURPLE, "P", "-"),
    "adaptive-span": (SKY, "s", "--"),
    "blockwise": (BROWN, "p", "-"),
    "bigbird": (RED, "h", "-"),
    "routing": (SKY, "d", "-"),
    "reformer": ("#000000", "*", "-"),
    "bp": (PURPLE, "<", "-"),
    "funnel": (BROWN, ">", "--"),
}
TITLES = {"forward": "Forward pass", "training": "Forward and backward pass"}
UNITS = {"time": ((1e-3, "ms"), (1.0, "s"), (60.0, "min")), "memory": ((1e6, "MB"), (1e9, "GB"))}


def draw(report: Mapping[str, Any], direction: str) -> "Figure":
    """Draws a report of `longspan bench attention` or `longspan bench kinds`.

    Args:
        report: what the benchmark wrote as JSON.
        direction: "forward" or "training".
    """
    import matplotlib

    with matplotlib.rc_context(RC):
        return _draw(report, direction)


def _draw(report: Mapping[str, Any], direction: str) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(10.5, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines = [
        (contestant, [r for r in report["records"] if _belongs(r, contestant["name"], direction)])
        for contestant in report["contestants"]
    ]
    lines = [(contestant, records) for contestant, records in lines if records]
    _panel(left, lines, "seconds", floor=1e-9)
    _panel(right, lines, "extra_bytes", floor=1.0)
    lengths = sorted({record["length"] for _, records in lines for record in records})
    for axes in (left, right):
        axes.set_xticks(lengths, [_short(length) for length in lengths])
        axes.minorticks_off()
        axes.set_xlabel("sequence length (tokens)")
        axes.grid(which="major", color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
        # Decades alone leave a short axis without numbers.
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0)))
    left.set_title("Time", loc="left", fontweight="bold")
    right.set_title("Memory beyond the inputs", loc="left", fontweight="bold")
    left.yaxis.set_major_formatter(lambda value, _: _quantity(value, UNITS["time"]))
    right.yaxis.set_major_formatter(lambda value, _: _quantity(value, UNITS["memory"]))
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"{TITLES[direction]}: {_caption(report)}", x=0.01, ha="left", fontsize=10)
    return figure


def _belongs(record: Mapping[str, Any], name: str, direction: str) -> bool:
    has_value = record["seconds"] is not None and record["extra_bytes"] is not None
    return record["contestant"] == name and record["direction"] == direction and has_value


def _panel(axes: "Axes", lines: Sequence[tuple[Mapping[str, Any], Any]], key: str, *, floor: float) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for contestant, records in lines:
        colour, marker, style = (LINES | LINES_OF_KINDS)[contestant["name"]]
        ours = contestant["name"] in ("native", "window")
        axes.plot(
            [record["length"] for record in records],
            [max(record[key], floor) for record in records],
            color=colour,
            marker=marker,
            linestyle=style,
            linewidth=2.6 if ours else 1.4,
            markersize=8 if ours else 7,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            # Beneath the others: a thin line stays visible on a thick one.
            zorder=2 if ours else 3,
            label=contestant["label"],
        )


def _caption(report: Mapping[str, Any]) -> str:
    work, host = report["workload"], report["machine"]
    globals_ = f"{work['num_globals']} global token{'' if work['num_globals'] == 1 else 's'}"
    heads = f"{work['heads']} heads of {work['head_dim']}"
    shape = f"batch {work['batch']}, {heads}, window {work['window']}, {globals_}"
    threads = f"{host['threads']} thread{'' if host['threads'] == 1 else 's'}"
    limits = f"{report['limits']['max_seconds']:g} s or {report['limits']['max_bytes'] / 1e9:g} GB"
    return (
        f"{shape}, {work['dtype']}; {host['cpu']}, {threads}\nLines end where a call would exceed {limits}."
    )


def _short(length: int) -> str:
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)


def _quantity(value: float, units: Sequence[tuple[float, str]]) -> str:
    size, unit = next(((s, u) for s, u in reversed(units) if value >= 0.9995 * s), units[0])
    return f"{value / size:g} {unit}"
