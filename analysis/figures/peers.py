"""The figure of steps beside other software: a row per case, a mark per variant."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import peer_comparison, style
from ..formatting import case_label, figure
from ..labelled_rows import HEADING, ROW, Columns
from ..layout import Sheet
from ..panels import span_axis
from ..peer_comparison import OURS, Beside
from ..results import Results

AXIS = 0.58  # inches under the rows: figures, the axis' label, space
SIDES = {True: "#0072B2", False: "#D55E00"}  # paceline's colour and the others'


def draw(results: Results) -> Figure | None:
    """None for experiments whose cases are not steps, and where one side did nothing."""
    if not peer_comparison.are_steps(results):
        return None
    found = peer_comparison.of(results)
    if not found:
        return None
    panels = [(group, labels_of(group)) for group in peer_comparison.groups(found)]
    columns = Columns.of([name for _, names in panels for name in names], [*map(times, found)])
    heading = HEADING if len(panels) > 1 else 0.0
    height = sum(heading + len(group) * ROW + AXIS for group, _ in panels)
    looks = looks_of(found)
    sheet = Sheet(
        results,
        title="Steps beside other software",
        notes=[
            "Medians; of several runs the slower. Right: the fastest of each side, and their ratio."
        ],
        body=(columns.width, height),
        legend=[(variant, *look) for variant, look in looks.items()],
    )
    ends = [ratio for one in found for ratio in one.ratios.values()]
    top = sheet.body_top
    for group, names in panels:
        sheet.page.heading(style.MARGIN, top, title_of(group, found), "")
        top += heading
        axes = columns.axes(sheet, top, names, [*map(times, group)])
        axes.axvline(1, color=style.FAINT, lw=1)
        span_axis(axes, min(ends), max(ends), "time over that of the fastest peer")
        for index, one in enumerate(group):
            draw_row(axes, one, index + 0.5, looks)
        top += len(group) * ROW + AXIS
    return sheet.figure


def labels_of(group: list[Beside]) -> list[str]:
    names = peer_comparison.varying(group)
    kinds = len({one.kind for one in group}) > 1
    return [
        case_label([*names, "kind"], [*(one.work[name] for name in names), one.kind * kinds])
        for one in group
    ]


def title_of(group: list[Beside], found: list[Beside]) -> str:
    """What tells this group from the others."""
    names = [
        name
        for name in peer_comparison.varying(found)
        if name not in peer_comparison.varying(group)
    ]
    return case_label(names, [group[0].work[name] for name in names])


def looks_of(found: list[Beside]) -> dict[str, tuple[str, str]]:
    """The colour, which is of the side, and the marker of each variant."""
    looks = {}
    for is_ours, color in SIDES.items():
        variants = dict.fromkeys(
            variant for one in found for variant in one.times
            if variant.startswith(OURS) == is_ours
        )  # fmt: skip
        looks |= {
            variant: (color, style.MARKERS[index % len(style.MARKERS)])
            for index, variant in enumerate(variants)
        }
    return looks


def times(one: Beside) -> str:
    ours, theirs = (figure(1e3 * seconds, 3) for _, seconds in (one.ours, one.theirs))
    return f"{ours} / {theirs} ms = {one.ratio:.2f}"


def draw_row(axes: Axes, one: Beside, place: float, looks: dict[str, tuple[str, str]]) -> None:
    ends = min(one.ratios.values()), max(one.ratios.values())
    axes.hlines(place, *ends, color=style.GRID, lw=2.4)
    for variant, ratio in one.ratios.items():
        color, marker = looks[variant]
        axes.plot(ratio, place, marker, ms=5, color=color, mew=0)
