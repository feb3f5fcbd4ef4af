"""The report of published files: what answers, its figures against the samples, its form."""

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

from analysis import report
from analysis.report import published
from analysis.report.answer import FIRST
from analysis.report.questions import QUESTIONS
from analysis.report.selection import pool_of
from analysis.result_file import ResultError, opened
from analysis.tables.spread import Spread
from analysis.workers import Progress
from browser import CHROMIUM, MEASURE, chromium, console
from conftest import ROOT
from reference_figures import FILES, REFERENCE

# Files that answer the questions with the most figures; all of them take a minute.
FEW = (
    "attention-flash-benchmark-h200", "ddp-course", "ddp-predict", "model-compile-h200",
    "model-precision", "model-profile-h200", "model-sizes", "model-warmup", "plan", "zero-course",
)  # fmt: skip
ALL = pytest.param("", marks=pytest.mark.long, id="all")
# Rows of each published table with a counterpart in our files of the H200.
COUNTERPARTS = {
    "timing": 15, "warmup": 15, "precision": 10, "memory": 28, "attention": 60,
    "attention_compile": 120, "flash": 320, "collectives": 31, "ddp": 26, "sharding": 19,
    "accounting": 13, "profile": 5, "kernels": 5, "compile": 22, "accumulation": 12,
    "dtypes": 18,
}  # fmt: skip
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: tools/deps.sh tests")


@pytest.fixture(scope="session", params=[pytest.param(FEW, id="few"), ALL])
def names(request):
    return request.param


@pytest.fixture(scope="session")
def found(names):
    paths = [path for path in FILES if path.name.startswith(names)]
    return report.read(paths, Progress())[0]


@pytest.fixture(scope="session")
def made(found):
    return report.of(found)


@pytest.fixture(scope="session")
def page(made):
    return report.page(made, report.draw(made.drawings, Progress()))


def answer(made, name):
    return next(answer for question, answer in made.answered if question.name == name)


class Words(HTMLParser):
    """The words of a page, folded ones too."""

    def __init__(self, page):
        super().__init__()
        self.found, self.is_style = [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.is_style = tag == "style"

    def handle_data(self, data):
        self.found += [] if self.is_style else data.split()


@cache
def samples_of(path):
    """By case and phase, read from the file: the slowest rank's seconds of each repetition."""
    with opened(path) as file:
        return {
            name: {phase: data[:].max(axis=0) for phase, data in case.get("samples", {}).items()}
            for name, case in file["cases"].items()
        }


def from_samples(case, phase):
    """The median; of FIRST the first step from cold."""
    if phase == FIRST:
        with opened(case.run.path) as file:
            return file["cases"][case.get("case")]["samples_warmup/step"][:, 0].max()
    return np.median(samples_of(case.run.path)[case.get("case")][phase])


def test_figures_of_cards_are_those_of_the_samples(made):
    """Of bars; then the numbers and sentences that have a time."""
    checked = 0
    for _, one in made.answered:
        for bar in one.bars:
            if bar.sources:
                first, *second = [from_samples(*source) for source in bar.sources]
                assert bar.value == pytest.approx(first / second[0] if second else first, rel=1e-9)
                checked += 1

    def median(name, phase="step"):
        return from_samples(answer(made, name).case, phase)

    told = {
        answer(made, "passes").number: f"{median('passes'):.2f} s",
        answer(made, "where").number: f"{100 * median('where', 'backward') / median('where'):.1f}%",
        answer(made, "exchange").sentence: f"takes {1e3 * median('exchange'):.0f} ms",
        answer(made, "precision").sentence: f"takes {1e3 * median('precision'):.1f} ms in bf16",
        answer(made, "compile").sentence: f"takes {1e3 * median('compile'):.0f} ms compiled",
        answer(made, "flash").sentence: f"backward take {1e3 * median('flash', 'both'):.2f} ms,",
        answer(made, "warmup").sentence: f"takes {1e3 * median('warmup', FIRST):.0f} ms, ",
    }
    for words, expected in told.items():
        assert expected in words
    assert checked + len(told) >= 40


def test_the_first_screen_answers_what_a_reader_asks(made):
    """Values of the files that docs/results.md names for them."""
    four = [question.name for question, _ in made.answered[:3]]
    assert four == ["memory", "where", "exchange"]
    memory = answer(made, "memory")
    assert "2.7b at context 1,024 needs 92.0 GiB (98.8 GB) in fp32" in memory.sentence
    assert answer(made, "where").unit == "of a step is backward"
    assert answer(made, "exchange").number == "bucketed"


def test_the_warm_up_is_of_the_preset_s_own_file(made):
    """Not of a profile that varies the size too: that has 12.15 ± 0.21."""
    (table,) = answer(made, "warmup").tables
    forward = {tuple(row[:2]): row[2] for row in table.rows}
    assert forward["medium", "0"] == "20.59 ± 27.62"
    assert forward["medium", "1"] == "11.86 ± 0.03"
    assert {count for _, count in forward} == {"0", "1", "2", "5"}
    assert all(re.fullmatch(r"[\d.]+ ± [\d.]+", cell) for row in table.rows for cell in row[2:])
    assert {case.run.path.name for case, _ in answer(made, "warmup").bars[0].sources} == {
        "model-warmup-h200.h5.xz"
    }


def test_every_answer_is_of_one_file(made):
    """Deviations of a table came from three files. Scaling and peers join files by design."""
    for question, one in made.answered:
        files = {case.run.path for bar in one.bars for case, _ in bar.sources}
        assert len(files) <= 1, question.name
        assert not files or files == {one.case.run.path}, question.name


def test_sentences_are_short_and_commands_are_for_what_is_missing(made):
    names = [question.name for question, _ in made.answered]
    assert names == [one.name for one in QUESTIONS if one.name in names]
    for question, one in made.answered:
        assert len(one.sentence.split()) <= 25, question.name
        assert 1 <= len(one.bars) <= 6, question.name
        assert max(bar.value for bar in one.bars) > 0, question.name
    assert len(names) + len(made.unanswered) == len(QUESTIONS)


def test_questions_without_data_are_one_line_each(made, page, names):
    assert len(made.unanswered) == (0 if names == "" else page.count("<li>"))
    for question, why in made.unanswered:
        assert why == "", question.name
        line = next(line for line in page.splitlines() if f"<li>{question.title}" in line)
        assert re.search(r"<code>.*(paceline|analysis|bench).*</code></li>", line), question.name


def test_the_page_has_no_scripts_and_loads_nothing(page, made):
    assert "<script" not in page and not re.search(r'(?:src|href)="(?!data:|#)', page)
    anchors = re.findall(r' id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)
    assert page.count('class="card"') == len(made.answered)
    text = " ".join(Words(page).found)
    assert not re.search(r"\bnan\b|\bNone\b|Traceback", text)


def test_the_page_is_small(page, names):
    words, size = (15_000, 6e6) if names == "" else (7_000, 3e6)
    assert 1_000 < len(Words(page).found) <= words
    assert len(page.encode()) <= size


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_a_window(page, tmp_path, width):
    """Chromium's window is never narrower than 500 pixels: the page is in a frame of that width."""
    inner, path = tmp_path / "report.html", tmp_path / "frame.html"
    inner.write_text(page.replace("</body>", MEASURE), encoding="utf-8")
    path.write_text(
        f'<iframe src="{inner.as_uri()}" width="{width}" height="900" style="border: 0"></iframe>'
        """<script>onload = () => { document.documentElement.dataset.measured =
        document.querySelector("iframe").contentDocument.documentElement.dataset.measured;
        };</script>""",
        encoding="utf-8",
    )
    done = chromium(tmp_path, "--dump-dom", "--allow-file-access-from-files", path.as_uri())
    measured = re.search(r'data-measured="([^"]+)"', done.stdout)
    assert measured and console(done.stderr) == []
    window, folded, unfolded, images, broken, outside, small, _ = map(int, measured[1].split())
    assert (window, max(folded, unfolded)) == (width, width)
    assert images == page.count("<img ") > 5
    assert [broken, outside, small] == [0, 0, 0]


@needs_browser
def test_it_prints(page, tmp_path):
    path, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    path.write_text(page, encoding="utf-8")
    done = chromium(tmp_path, f"--print-to-pdf={pdf}", path.as_uri())
    assert pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 100_000
    assert console(done.stderr) == []


def test_means_with_deviations_are_a_choice(found):
    pool = pool_of(found)
    question = next(one for one in QUESTIONS if one.name == "passes")
    (table,) = question.answer(pool, Spread.STD).tables
    case = question.answer(pool, Spread.STD).case
    with opened(case.run.path) as file:
        times = 1e3 * file["cases"][case.get("case")]["samples/forward"][:].max(axis=0)
    assert table.rows[-1][2] == f"{times.mean():.1f} ± {times.std(ddof=1):.1f}"


def test_the_machine_asked_for_answers_alone(found):
    pool = pool_of(found, "h100")
    assert pool.machine == "NVIDIA H100 80GB HBM3"
    assert {case.run.hardware for case in pool.cases} == {"2 × NVIDIA H100 80GB HBM3", ""}
    assert pool_of(found).machine == "NVIDIA H200" and pool.others["NVIDIA H200"] > 1
    with pytest.raises(ResultError, match="--machine A100: these files are of NVIDIA H200, NVIDIA"):
        pool_of(found, "A100")


def counterparts(found):
    pool = pool_of(found)
    return Counter(
        comparison.name
        for comparison in published.COMPARISONS
        for row in published.read(comparison.name)
        if published.counterpart(pool, comparison, row)
    )


def test_rows_of_the_write_ups_with_a_counterpart_are_counted(found, names):
    counted = counterparts(found)
    if names == "":
        assert counted == COUNTERPARTS
    tables = {table.name: table for table in published.tables(pool_of(found))}
    assert sum(len(table.rows) for table in tables.values()) == counted.total()
    timing = tables["timing-write-up-1"]
    assert timing.caption[0] == "15 of 15 rows have a counterpart in these files."
    assert "Theirs: H800 PCIe; ours: NVIDIA H200." in timing.caption[1]
    row = next(row for row in timing.rows if row[:2] == ["2.7b", "512"])
    with opened(REFERENCE / "model-sizes-h200.h5.xz") as file:
        (case,) = [c for c in file["cases"].values()
                   if (c.attrs["size"], c.attrs["context"]) == ("2.7b", 512)]  # fmt: skip
        mean = 1e3 * case["samples/forward"][:].mean()
    place = timing.header.index("forward")
    assert row[place].startswith("490.07") and row[place + 1].startswith(f"{mean:.1f} ±")
    warmup = tables["warmup-write-up-2"]
    assert warmup.caption[0].startswith("0 of 1 rows") and warmup.rows == []


def test_the_page_of_the_write_ups(tmp_path, found):
    (written,) = report.write(
        [REFERENCE / "model-sizes-h200.h5.xz"], tmp_path / "p.html", beside=True
    )
    text = written.read_text("utf-8")
    assert text.count("15 of 15 rows have a counterpart") == 1 and "<script" not in text
    assert text.count("<section>") == 1 + sum(
        bool(table.rows) for table in published.tables(pool_of(found[:0] + [
            one for one in found if one.runs[0].name == "model-sizes-h200.h5.xz"]))
    )  # fmt: skip


def test_other_extensions_are_refused(tmp_path):
    with pytest.raises(ResultError, match=r"a report is a page: name it \.html"):
        report.write([REFERENCE / "plan-xxl.jsonl"], tmp_path / "report.pdf")


def test_the_documentation_lists_the_questions():
    text = (ROOT / "docs/analysis.md").read_text("utf-8")
    rows = text.split("| question | the course's problem | command |\n|---|---|---|\n")[1]
    listed = [tuple(line.strip("| ").split(" | ")) for line in rows.split("\n\n")[0].splitlines()]
    assert [tuple(cell.strip() for cell in row) for row in listed] == [
        (one.title, one.problem, f"`{one.command}`") for one in QUESTIONS
    ]
