"""Pictures of partitions: one stacked bar per client, its examples coloured by label (after FedGS, figure 7)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sortition.core.errors import DataError, bad
from sortition.core.streams import stream
from sortition.data.dataset import Dataset
from sortition.data.describe import Description, describe
from sortition.data.partitions import discover, split

if TYPE_CHECKING:
    import altair as alt

FORMATS = (".png", ".svg", ".pdf", ".html")


def partition_chart(described: Description, title: str, *, width: int = 420, height: int = 150) -> alt.Chart:
    """Draw how many examples of which label each client holds, as an Altair chart."""
    import altair as alt

    client_of_cell, label_of_cell = np.nonzero(described.counts)
    examples_of_cell = described.counts[client_of_cell, label_of_cell]
    cells = zip(client_of_cell.tolist(), label_of_cell.tolist(), examples_of_cell.tolist(), strict=True)
    values = [{"client": client, "label": label, "examples": examples} for client, label, examples in cells]
    clients, classes = described.counts.shape
    colours = "tableau10" if classes <= 10 else "turbo"
    legend_columns = 1 if classes <= 20 else 5
    subtitle = f"distance to the global mixture: {described.distance.mean():.2f} on average"
    return (
        alt.Chart(alt.InlineData(values=values), title=alt.TitleParams(title, subtitle=subtitle, anchor="start"))
        .mark_bar(size=max(1.0, 0.9 * width / clients))
        .encode(
            x=alt.X("client:Q", scale=alt.Scale(domain=[-0.5, clients - 0.5], nice=False), axis=alt.Axis(grid=False)),
            y=alt.Y("examples:Q", axis=alt.Axis(tickCount=4)),
            color=alt.Color(
                "label:O",
                scale=alt.Scale(scheme=colours),
                legend=alt.Legend(columns=legend_columns),
            ),
            order="label:Q",
        )
        .properties(width=width, height=height)
    )


def partition_gallery(data: Dataset, clients: int = 50, seed: int = 0) -> alt.ConcatChart:
    """Draw all partitions of one data set, with their default parameters, in one picture."""
    import altair as alt

    charts = []
    for name in discover():
        partition = split(name, data.y_train, clients, stream(seed, "partition"))
        charts.append(partition_chart(describe(partition, data.y_train, data.classes), name))
    return alt.concat(*charts, columns=2, spacing=24)


def write(chart: alt.TopLevelMixin, path: str | Path) -> Path:
    """Write a chart as PNG, SVG, PDF or HTML (with everything inside), by the file's ending."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise bad("picture", f"a file that ends in {', '.join(FORMATS)}", path.name)
    if not path.parent.is_dir():
        raise bad("picture", "in an existing folder", str(path.parent))
    options: dict[str, bool | int] = {}
    if path.suffix == ".html":
        options["inline"] = True
    if path.suffix == ".png":
        options["scale_factor"] = 2
    try:
        chart.configure(background="white").configure_view(stroke=None).save(str(path), **options)
        if path.suffix == ".png":
            _shrink(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def _shrink(path: Path) -> None:
    """Rewrite a picture with few colours, which takes about a twentieth of the renderer's bytes."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(64)
    small.save(path, optimize=True)
