"""The texts of a figure, and whether they can be read."""

from xml.etree import ElementTree

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg


def texts(path):
    """All texts of an SVG. ElementTree raises if the file is not well-formed."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def assert_legible(name, drawn):
    """Asserts that all texts are on the page and that no two overlap."""
    renderer = FigureCanvasAgg(drawn).get_renderer()
    drawn.draw_without_rendering()
    page = drawn.bbox
    boxes = []
    for axes in [None, *drawn.axes]:
        for words in texts_of(drawn, axes):
            box = words.get_window_extent(renderer)
            assert page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1, (name, words.get_text())
            assert page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1, (name, words.get_text())
            boxes.append((box.x0 + 1, box.y0 + 1, box.x1 - 1, box.y1 - 1, words.get_text()))
    array = np.array([box[:4] for box in boxes])
    for index, (x0, y0, x1, y1, words) in enumerate(boxes):
        after = array[index + 1 :]
        over = (after[:, 0] < x1) & (after[:, 2] > x0) & (after[:, 1] < y1) & (after[:, 3] > y0)
        others = [boxes[index + 1 + other][4] for other in np.flatnonzero(over)]
        assert not others, (name, words, others)


def texts_of(drawn, axes):
    if axes is None:
        return [one for one in drawn.texts if one.get_text().strip()]
    ticks = []
    for axis, bounds in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        low, high = sorted(bounds)
        ticks += [
            tick.label1
            for tick in axis.get_major_ticks()
            if low <= tick.get_loc() <= high and tick.label1.get_visible()
        ]
    found = [*axes.texts, *ticks, axes.xaxis.label, axes.yaxis.label]
    return [one for one in found if one.get_visible() and one.get_text().strip()]
