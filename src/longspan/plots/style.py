"""What all pictures share: colours that colour-blind readers can tell apart, and how they are saved."""

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, darkened where it is too faint for thin lines.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BROWN = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#A0528C",
    "#56B4E9",
    "#7A5C3E",
)
INK, GREY, FAINT, PAPER = "#222222", "#777777", "#E4E4E4", "#FFFFFF"

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    # Text stays text, so that an SVG can be searched and read aloud.
    "svg.fonttype": "none",
    # Element names in an SVG are derived from this, not from chance.
    "svg.hashsalt": "longspan",
}


def image_bytes(figure: "Figure", kind: str) -> bytes:
    """The figure as "png" or "svg", the same bytes for the same figure."""
    import matplotlib

    stream = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with matplotlib.rc_context(RC):
        figure.savefig(stream, format=kind, dpi=160, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    return stream.getvalue()
