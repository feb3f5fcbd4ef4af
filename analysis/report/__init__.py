"""The report: a page with a card for each question that the files answer, and its evidence.

questions.py lists the questions, selection.py has the rule of which case answers; a function a
question in training.py, memory.py, attention.py, parallel.py, paper.py and peers.py makes the
answer; published.py puts write-ups' figures beside ours. templates/ has the pages.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..output import write_text
from ..result_file import ResultError
from ..results import Results, load
from ..tables.spread import Spread
from ..workers import Progress, run
from . import published
from .answer import Answer, Drawing, Question
from .questions import QUESTIONS
from .selection import Pool, pool_of

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Report:
    pool: Pool
    found: list[Results]
    refused: list[str]  # files that cannot be read, and why
    answered: list[tuple[Question, Answer]]
    unanswered: list[tuple[Question, str]]  # and why, if their data is odd

    @property
    def drawings(self) -> list[Drawing]:
        return [drawing for _, answer in self.answered for drawing in answer.drawings]


def read(paths: Sequence[Path], progress: Progress) -> tuple[list[Results], list[str]]:
    """Each file as results of its own, read in parallel processes, and why others cannot be read.
    Raises ResultError if that is true of all."""
    parts: dict[int, list[Results] | str] = {}
    for number, part in run(load_one, paths):
        parts[number] = part
        progress.line(f"{len(parts)} of {len(paths)} files read: {paths[number].name}")
    ordered = [parts[number] for number in sorted(parts)]
    refused = [part for part in ordered if isinstance(part, str)]
    if len(refused) == len(paths):
        raise ResultError(refused[0])
    return [one for part in ordered if not isinstance(part, str) for one in part], refused


def load_one(path: Path) -> list[Results] | str:
    try:
        return load([path])
    except ResultError as error:
        return str(error)


def of(
    found: Sequence[Results], refused: Sequence[str] = (), machine: str = "",
    spread: Spread = Spread.INTERVAL,
) -> Report:  # fmt: skip
    """Raises ResultError."""
    pool = pool_of(found, machine)
    answers = [(question, answer_of(question, pool, spread)) for question in QUESTIONS]
    answered = [(question, answer) for question, answer in answers if isinstance(answer, Answer)]
    unanswered = [(question, why) for question, why in answers if isinstance(why, str)]
    return Report(pool, list(found), list(refused), answered, unanswered)


def answer_of(question: Question, pool: Pool, spread: Spread) -> Answer | str:
    """Empty without data; why not, if the data is not as paceline writes it."""
    try:
        return question.answer(pool, spread) or ""
    except ResultError as error:
        return str(error)


def draw(drawings: Sequence[Drawing], progress: Progress) -> dict[int, str | ResultError]:
    """By the number of the drawing an SVG in base64, or why there is none; nothing for a figure
    that lacks its data."""
    made: dict[int, str | ResultError] = {}
    for number, image in run(svg, drawings):
        progress.line(f"drew {drawings[number].name} of {drawings[number].results.runs[0].name}")
        if image:
            made[number] = image
    return made


def svg(drawing: Drawing) -> str | ResultError:
    from .. import figures  # matplotlib takes a second

    try:
        drawn = figures.of(drawing.results, [drawing.name])
    except ResultError as error:
        return error
    buffer = io.BytesIO()
    for _, figure in drawn:
        figures.save_to(figure, buffer)
    return base64.b64encode(buffer.getvalue()).decode()


def page(report: Report, images: dict[int, str | ResultError]) -> str:
    odd = [f"Figure {report.drawings[number].name}: {images.pop(number)}"
           for number, one in list(images.items()) if isinstance(one, ResultError)]  # fmt: skip
    numbers = iter(range(len(report.drawings)))
    sections = [
        (question, answer, [(one.name.replace("-", " "), images[number])
                            for one, number in zip(answer.drawings, numbers, strict=False)
                            if number in images])
        for question, answer in report.answered
    ]  # fmt: skip
    return render("page.html", report=report, sections=sections, odd=odd)


def render(template: str, **values: object) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    style = (HERE / "report.css").read_text("utf-8")
    return environment.get_template(template).render(style=style, **values)


def write(
    paths: Sequence[Path], target: Path, machine: str = "", spread: Spread = Spread.INTERVAL,
    beside: bool = False,
) -> list[Path]:  # fmt: skip
    """Writes the page, or with `beside` that of the write-ups' figures, and returns its path.
    Raises ResultError."""
    if target.suffix.lower() != ".html":
        raise ResultError(f"{target}: a report is a page: name it .html")
    progress = Progress()
    found, refused = read(paths, progress)
    if beside:
        pool = pool_of(found, machine)
        html = render("published.html", pool=pool, tables=published.tables(pool))
    else:
        report = of(found, refused, machine, spread)
        html = page(report, draw(report.drawings, progress))
    write_text(target, html)
    return [target]
