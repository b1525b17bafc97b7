"""Thumbnails of examples that can be read at 160 pixels: one plot without its captions.

sphinx-gallery shrinks the whole figure. Here one of its plots is drawn anew, so small that lines
and letters are large beside it.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.utils import scale_image

# The plot of an example's last figure that stands for it, if that is not the first.
CHOSEN = {
    "plot_click_streams": 1,
    "plot_dask": 1,
    "plot_kinds_of_documents": 1,
    "plot_merged_sites": 1,
    "plot_number_of_components": 1,
    "plot_phage_segments": 1,
    "plot_spoken_digits": 1,
    "plot_topics": 1,
}
SIZE = 2.6, 1.8  # inches
MOST_LABELS = 8
SUFFIX = "_plot.png"


def scrape(block, block_vars, gallery_conf):
    """Save the figures of a block, as sphinx-gallery does, and a plot for the thumbnail."""
    figures = [plt.figure(number) for number in plt.get_fignums()]
    rst = matplotlib_scraper(block, block_vars, gallery_conf)
    if figures:
        name = Path(block_vars["src_file"]).stem
        folder = Path(block_vars["image_path_iterator"].image_path).parent / "thumb"
        folder.mkdir(exist_ok=True)
        draw(figures[-1], CHOSEN.get(name, 0), folder / f"{name}{SUFFIX}")
    return rst


def draw(figure, index, path):
    """Draw one plot of a figure alone, in the size of a thumbnail."""
    chosen, *others = figure.axes[index:] + figure.axes[:index]
    for axes in others:
        axes.set_visible(False)
    figure.suptitle("")
    chosen.set(xlabel="", ylabel="")
    for side in ("left", "center", "right"):
        chosen.set_title("", loc=side)
    for legend in filter(None, (chosen.get_legend(), *figure.legends)):
        legend.remove()
    for axis in (chosen.xaxis, chosen.yaxis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        if (
            len(labels) > MOST_LABELS
            or any("$" in label for label in labels)
            or are_numbers(labels)
        ):
            axis.set_ticks([])
            axis.set_ticks([], minor=True)
    figure.canvas.draw()
    figure.set_layout_engine("none")
    drawn = chosen.get_window_extent().size / figure.dpi
    figure.set_size_inches(figure.get_size_inches() * SIZE / drawn)
    if overlap(chosen.texts):
        for text in chosen.texts:
            text.set_visible(False)
    box = chosen.get_tightbbox().transformed(figure.dpi_scale_trans.inverted())
    figure.savefig(path, dpi=200, bbox_inches=box.padded(0.05))


def are_numbers(text):
    return "$" in text or not any(map(str.isalpha, text))


def overlap(texts):
    boxes = [text.get_window_extent() for text in texts]
    return any(box.count_overlaps(boxes) > 1 for box in boxes)


def setup(app):
    # After sphinx-gallery, which runs the examples and shrinks their figures.
    app.connect("builder-inited", replace_thumbnails, priority=900)


def replace_thumbnails(app):
    width, height = app.config.sphinx_gallery_conf.get("thumbnail_size", (400, 280))
    for path in Path(app.srcdir, "auto_examples").glob(f"*/images/thumb/*{SUFFIX}"):
        stem = path.name.removesuffix(SUFFIX)
        scale_image(path, path.with_name(f"sphx_glr_{stem}_thumb.png"), width, height)
        path.unlink()
