"""The report of all published files, of single files, and its comparisons with the write-ups. All
that needs the whole report is here, so that one worker makes it."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis import figures, report, result_file
from analysis.report import html, markdown, published
from analysis.report.section import CAPTIONS, Drawing, grid
from analysis.results import ResultError
from browser import CHROMIUM, MEASURE, WIDTH, chromium, console

REFERENCE = Path(__file__).parents[2] / "results/reference"
PUBLISHED = {path.stem: pd.read_csv(path, dtype=str) for path in published.FOLDER.glob("*.csv")}
TABLES = [
    (name, source) for name, rows in sorted(PUBLISHED.items()) for source in rows["source"].unique()
]
# The number of rows of each table whose setting is in our published files.
MEASURED = {
    "timing": 15, "warmup": 15, "precision": 10, "memory": 28, "attention": 60,
    "attention_compile": 120, "flash": 320, "collectives": 31, "ddp": 34, "sharding": 19,
    "sizes": 7, "accounting": 17, "profile": 5, "kernels": 5, "compile": 22,
}  # fmt: skip


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: tools/deps.sh tests")


def section(whole, name):
    return next(section for section in whole.sections if section.name == name)


@pytest.mark.parametrize(("name", "source"), TABLES)
def test_every_table_of_the_write_ups_has_a_counterpart(whole, name, source):
    wanted = f"published-{name}-{source.replace(' ', '-')}"
    (table,) = [t for s in whole.sections for t in s.published if t.name == wanted]
    rows = PUBLISHED[name][PUBLISHED[name]["source"] == source].fillna("")
    assert len(table.rows) == len(rows)
    assert {"published on", "ours on", "note"} <= set(table.header)
    shown = dict(zip(table.header, zip(*table.rows, strict=True), strict=True))
    assert list(shown["published on"]) == list(rows["hardware"])
    assert list(shown["note"]) == list(rows["note"])
    for header in table.header:
        if header.endswith(", published"):
            (column,) = [
                one for one in rows if published.named(one) == header[: -len(", published")]
            ]
            assert f"{header.removesuffix('published')}ours" in shown
            for cell, value in zip(shown[header], rows[column], strict=True):
                assert cell.split(" ± ")[0] == (value or "–")


@pytest.mark.parametrize("name", MEASURED)
def test_our_figure_is_given_where_the_setting_was_measured(whole, name):
    tables = [t for s in whole.sections for t in s.published if t.name.split("-")[1] == name]
    hardware = [row[table.header.index("ours on")] for table in tables for row in table.rows]
    without = ("not measured", "no closed form here", "not stated")
    found = [one for one in hardware if not one.endswith(without)]
    assert len(found) == MEASURED[name]
    has_ratios = any(header.endswith("published / ours") for header in tables[0].header)
    assert has_ratios == (name in ("sizes", "accounting"))
    assert ("No ratio" in " ".join(tables[0].caption)) != has_ratios


def test_reasons_name_what_a_row_leaves_open_and_what_is_no_measurement(whole):
    tables = {t.name.removeprefix("published-"): t for s in whole.sections for t in s.published}

    def captions(name):
        return " ".join(tables[name].caption)

    def reasons(name):
        table = tables[name]
        return {row[table.header.index("ours on")] for row in table.rows}

    assert "8 of 10 rows have a closed form here; none is a measurement." in captions(
        "accounting-write-up-1"
    )
    assert reasons("accounting-write-up-1") == {"closed form", "no closed form here"}
    memory = "13 of 17 rows are measured in these files, 4 more are closed forms."
    assert memory in captions("memory-write-up-1")
    assert reasons("timing-write-up-4") == {"context not stated"}
    assert "dtype of mixed precision not stated" in reasons("flash-write-up-4")
    assert "size and context not stated" in reasons("kernels-write-up-1")
    assert "theirs are of H800 PCIe, ours of NVIDIA H200." in captions("timing-write-up-1")
    assert "the text does not name its hardware." in captions("attention-write-up-4")
    assert "5 of 15 of theirs have a standard deviation." in captions("timing-write-up-1")
    assert "theirs are given without a deviation." in captions("precision-write-up-1")
    assert "Both are means with standard deviations." in captions("collectives-write-up-1")
    stated = "Not stated in all rows: context (ours 512), batch size (ours 4)."
    assert stated in captions("compile-write-up-4")
    assert "Different: measured steps 100 there, 10 here." in captions("sharding-write-up-4")


def test_derived_rows_of_sharding_are_of_the_two_cases(whole):
    (table,) = [t for t in section(whole, "sharding").published if "write-up-1" in t.name]
    value = {row[3]: row[table.header.index("value, ours")] for row in table.rows if row[4] != "%"}
    percents = {
        row[3]: row[table.header.index("value, ours")] for row in table.rows if row[4] == "%"
    }
    assert value["peak saved"] == "7.444" and percents["peak saved"] == "23.68"
    assert float(percents["step longer by"]) == pytest.approx(17.5, abs=0.2)
    least, most = (float(value[f"optimizer state, {end} of ranks"]) for end in ("least", "most"))
    assert 7.3 < least <= most < 7.6


def test_figures_in_the_comparison_are_those_of_the_files(whole):
    (table,) = [
        table
        for table in section(whole, "timings").published
        if table.name == "published-timing-write-up-1"
    ]
    row = next(row for row in table.rows if row[:2] == ["2.7b", "512"])
    assert "490.07" in row and "1003.19" in row
    wanted = {"size": "2.7b", "precision": "fp32", "exec": "eager", "mode": "train-step"}
    newest = REFERENCE / "model-compile-h200.h5.xz"
    with result_file.opened(newest) as file:
        (case,) = [c for c in file["cases"].values() if wanted.items() <= dict(c.attrs).items()]
        for phase in ("forward", "backward"):
            mean = 1e3 * case["samples"][phase][:].mean()
            assert any(cell.startswith(f"{mean:.1f} ±") for cell in row)


def test_the_summary_answers_memory_bucketing_and_time(whole):
    page = html.page(whole)
    summary = page[page.index('id="summary"') : page.index('id="contents"')]
    assert "only where their 95% intervals do not overlap" in summary
    assert re.search(r"2\.7b needs .*92\.0 GiB \(98\.8 GB\) at context 1024 .*141 GB", summary)
    worth = r"Yes, a little, in [34] of [78] settings\. 109\.2 ms with bucketed 1, 10 or 25 MB"
    assert re.search(worth, summary)
    assert "Where a step&#x27;s time goes: backward 63.6%, forward 28.7%" in summary
    assert "backward 64.5%, forward 34.3%" in summary
    assert re.search(r"The model: compiled is 1\.02 to 1\.15× as fast as eager", summary)
    assert re.search(r"The step beside that with the whole state: broadcast .* longer", summary)
    assert re.search(r"Training steps.*: paceline takes 0\.\d+ to 0\.\d+ times the time", summary)


def test_sections_are_in_the_order_of_the_course_and_measured(whole):
    names = [one.name for one in whole.sections]
    assert names == [
        "timings", "warmup", "profile", "accumulation", "precision", "memory",
        "pytorch-attention", "compile", "flash", "collectives", "ddp-naive", "ddp-flat",
        "ddp-overlap", "ddp-bucketed", "accounting", "plan", "sharding", "peers",
    ]  # fmt: skip
    for one in whole.sections[:-1]:
        assert one.is_measured, one.name
        assert one.sentences and one.tables, one.name
        assert one.drawings or one.name == "plan"


def test_a_section_opens_with_three_sentences_and_folds_the_rest(made):
    for one in made.sections:
        assert len(one.lead) <= 3 and one.lead + one.rest == one.sentences, one.name
    told = [f"Sentence {index}." for index in range(5)]
    one = replace(made.sections[0], sentences=told, tables=[], drawings=[], published=[])
    page = html.of_section(1, one, 1)
    answer, folded = page.split("<details>")
    assert answer.count("<li>") == 3 and "Sentence 2." in answer
    assert folded.startswith("<summary>More in sentences (2)</summary></details>\n<div class=")
    assert folded.count("<li>") == 2 and "Sentence 4." in folded
    lines = markdown.of_section(1, one, "images", 1)
    heading = lines.index("### More in sentences")
    assert [line[2:] for line in lines[:heading] if line.startswith("- ")] == told[:3]
    assert [line[2:] for line in lines[heading:] if line.startswith("- ")] == told[3:]
    few = html.of_section(1, replace(one, sentences=told[:3]), 1)
    assert "<details>" not in few


def test_columns_of_figures_are_told_from_texts():
    def is_numeric(*cells):
        return grid("t", "t", [], ["h"], [[cell] for cell in cells]).columns[0].numeric

    assert is_numeric("12", "–", "1,024.5 ± 0.1", "3.2e-05", "5 to 7.5", "+1.5%")
    assert not is_numeric("12", "354.3: 5.5% shorter")
    assert not is_numeric("1, 10 and 25 MB") and not is_numeric("1 MB: 195, 10 MB: 195")


def test_commands_in_sentences_are_code():
    assert html.with_code("`a <b` is") == "<code>a &lt;b</code> is"


@pytest.mark.parametrize("name", ["ddp-naive", "ddp-flat", "ddp-overlap", "sharding"])
def test_the_table_of_every_setting_stands_before_the_figures(made, name):
    one = section(made, name)
    page = html.of_section(1, one, 1)
    expected = f"{name}-{one.tables[0].name}"
    assert page.index(f'id="{expected}"') < page.index("<figure ")
    assert ("-cases" in page[page.index("<figure ") :]) == (name == "sharding")
    lines = markdown.of_section(1, one, "images", 1)
    first_image = next(index for index, line in enumerate(lines) if line.startswith("!["))
    assert lines.index(f"### {one.tables[0].title}") < first_image
    assert sum(line.startswith("### ") for line in lines[:first_image]) == 1


def test_repeated_sentences_of_settings_are_rows_of_a_table(whole):
    sections = {one.name: one for one in whole.sections}
    for name in ("ddp-naive", "ddp-flat", "ddp-overlap", "ddp-bucketed"):
        one = sections[name]
        assert len(one.sentences) <= 5, name
        (table,) = [t for t in one.tables if t.name == f"exchange-{name[4:]}"]
        assert len(table.rows) >= 2
    sharding = sections["sharding"]
    assert len(sharding.sentences) == 3
    assert sharding.headline == " ".join(sharding.sentences[:2])
    assert re.search(r"each of 2 ranks: broadcast 23\.7% lower, zero1 ", sharding.headline)
    (table,) = [t for t in sharding.tables if t.name == "sharding"]
    assert ["23.99", "23.7% lower", "126.9", "20.7% longer"] in [row[5:] for row in table.rows]


def test_the_cases_of_a_file_of_exchanges_are_in_one_table(made):
    titles = [t.title for one in made.sections for t in one.tables if t.name.endswith("-cases")]
    assert any(title.startswith("Cases of ddp") for title in titles)
    assert len(titles) == len(set(titles))


def test_equal_memory_marks_are_drawn_and_told_once(whole):
    def named(name, kind):
        parts = [one.name for one in getattr(section(whole, name), kind)]
        return [part for part in parts if part.endswith("memory-marks")]

    assert named("memory", "tables") == ["model-memory-h200-memory-marks"]
    assert named("memory", "drawings") == ["memory-model-memory-h200-memory-marks"]
    assert "sharding-zero-course-h200-memory-marks" not in named("sharding", "drawings")
    assert "sharding-zero-course-h100-memory-marks" in named("sharding", "drawings")
    assert "zero-course-h200-memory-marks" in named("sharding", "tables")


def test_predicted_overhead_is_drawn_where_it_is_in_a_table(whole):
    one = section(whole, "ddp-bucketed")
    assert "ddp-predict-h200-predict" in [table.name for table in one.tables]
    assert "ddp-bucketed-ddp-predict-h200-overhead" in [drawn.name for drawn in one.drawings]


def test_an_unmeasured_section_says_so_and_gives_its_command(tmp_path):
    report.write([REFERENCE / "collectives-single-node-h200.h5"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    start = page.index('id="accumulation"')
    assert "Not measured" in page[start : start + 900]
    assert "build/paceline precision" in page[start : start + 900]


def test_the_page_loads_nothing_and_runs_nothing(page):
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "<script" not in page
    assert not re.search(r"\bnan\b|Traceback|None", re.sub(r"base64,[^\"]+", "", page))


def test_anchors_and_names_are_unique(made, page):
    anchors = re.findall(r' id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)
    names = [drawing.name for one in made.sections for drawing in one.drawings]
    assert len(names) == len(set(names))


def test_terms_follow_the_summary(page):
    assert page.index('id="summary"') < page.index('id="terms"') < page.index('id="contents"')
    terms = page[page.index('id="terms"') : page.index('id="contents"')]
    assert terms.count("<dt>") == 10
    assert page.count("CS336, assignment 2") == 1


def test_figures_are_numbered_and_described(made, page):
    captions = re.findall(
        r"<figcaption><b>Figure (\d+)\.</b> ([^<]+\.) <small>([^<]+)</small>", page
    )
    assert [int(number) for number, *_ in captions] == list(range(1, page.count("<figure ") + 1))
    assert captions[0][1] == escape(CAPTIONS["steps"])
    assert captions[0][2].startswith("steps: model-")
    assert set(CAPTIONS) == figures.NAMES


def test_tables_without_a_row_of_ours_are_folded(made, page):
    aside = [t for one in made.sections for t in one.published if t.is_aside]
    assert aside
    for table in aside:
        assert table.caption[0].startswith("0 of ")
        assert f"<summary>{escape(table.title)} ({len(table.rows)} row" in page


def test_the_page_ends_with_environment_and_commands(page):
    last = page[page.index('<section id="environment">') :]
    assert "model-sizes-h200.h5.xz" in last and "--preset sizes" in last


def test_markdown_has_the_same_sections_and_an_image_folder(tmp_path):
    path = REFERENCE / "collectives-single-node-h200.h5"
    written = report.write([path], tmp_path / "new" / "r.md")
    text = written[0].read_text("utf-8")
    assert [p.parent.name for p in written[1:]] == ["r-images"] * len(written[1:])
    for image in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (tmp_path / "new" / image).stat().st_size > 1000
    assert "## 10. How fast are collectives?" in text
    assert "NCCL reaches a bus bandwidth of 351 GB/s (all_reduce of 1,000 MB, 4 ranks on " in text
    assert text.count("Not measured in these files") == 16


def test_another_extension_is_refused(tmp_path):
    with pytest.raises(ResultError, match="no report is made with the extension"):
        report.write([REFERENCE], tmp_path / "report.pdf")


def test_the_markdown_summary_has_a_line_per_headline(made):
    lines = markdown.summary(made)
    assert sum(line.startswith("- ") for line in lines) == sum(
        bool(s.headline) for s in made.sections
    )


@pytest.fixture(scope="module")
def opened(page, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    path = folder / "report.html"
    path.write_text(page.replace("</body>", MEASURE), encoding="utf-8")
    return chromium(folder, "--dump-dom", path.as_uri())


@needs_browser
def test_the_console_is_silent(opened):
    assert console(opened.stderr) == []


@needs_browser
def test_all_figures_load_and_nothing_overflows(opened, page):
    measured = re.search(r'data-measured="([^"]+)"', opened.stdout)
    assert measured
    window, folded, unfolded, images, *wrong = map(int, measured[1].split())
    assert window == WIDTH
    assert max(folded, unfolded) <= WIDTH
    assert images == page.count("<figure ") > 5
    assert wrong == [0, 0, 0, 0]  # broken, outside, small, sideways


@needs_browser
def test_a_folded_table_wider_than_the_page_scrolls_in_its_own_box(tmp_path):
    rows = [["1,234.5 ± 0.1"] * 24] * 40
    body = html.of_table("part", grid("wide", "A wide table", [], ["number"] * 24, rows))
    probe = """<script>addEventListener("load", () => {
      document.querySelector("details").open = true;
      const root = document.documentElement, box = document.querySelector(".wide");
      box.scrollLeft = 10000;
      root.dataset.measured = [root.scrollWidth, box.scrollLeft > 0].join(" ");
    });</script>"""
    path = tmp_path / "page.html"
    style = html.STYLESHEET.read_text("utf-8")
    path.write_text(f"<style>{style}</style><main>{body}</main>{probe}", encoding="utf-8")
    dumped = chromium(tmp_path, "--dump-dom", path.as_uri()).stdout
    assert f'data-measured="{WIDTH} true"' in dumped


@needs_browser
def test_all_tables_fit_a_printed_page_if_they_are_opened(page, tmp_path):
    """Chromium would print all pages smaller. Captions are no smaller than what they end with."""
    probe = """<style>main { width: 273mm; }</style><script>addEventListener("load", () => {
      document.querySelectorAll("details").forEach(d => { d.open = true; });
      const size = element => parseFloat(getComputedStyle(element).fontSize);
      const boxes = [...document.querySelectorAll(".wide")];
      const ends = [...document.querySelectorAll("figcaption small")];
      document.documentElement.dataset.measured = [
        boxes.length, boxes.filter(e => e.clientHeight === 0).length,
        boxes.filter(e => e.scrollWidth > e.clientWidth).length,
        ends.filter(e => size(e) > size(e.parentElement)).length].join(" ");
    });</script></body>"""
    printed = page.replace("@media print", "@media screen").replace("</body>", probe)
    path = tmp_path / "report.html"
    path.write_text(printed, encoding="utf-8")
    dumped = chromium(tmp_path, "--dump-dom", path.as_uri()).stdout
    measured = re.search(r'data-measured="([^"]+)"', dumped)
    assert measured
    tables, *wrong = map(int, measured[1].split())
    assert tables == page.count('<div class="wide">') > 10
    assert wrong == [0, 0, 0]  # still folded, wider than the page, larger than their captions


@needs_browser
def test_printing_to_pdf(page, tmp_path):
    path, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    path.write_text(page, encoding="utf-8")
    done = chromium(tmp_path, f"--print-to-pdf={pdf}", path.as_uri())
    assert pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 100_000
    assert console(done.stderr) == []


def text_in_print(body, folder):
    """The text of a page with the report's style sheet, as Chromium prints it."""
    path, pdf = folder / "page.html", folder / "page.pdf"
    path.write_text(f"<style>{html.STYLESHEET.read_text('utf-8')}</style>{body}", encoding="utf-8")
    chromium(folder, f"--print-to-pdf={pdf}", path.as_uri())
    words = subprocess.run(["pdftotext", pdf, "-"], capture_output=True, text=True, check=True)
    return words.stdout


@needs_browser
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext: tools/deps.sh tests")
def test_folded_sentences_are_printed_and_tables_only_if_they_are_open(made, tmp_path):
    rows = [[f"row{index}"] for index in range(40)]
    long = grid("long", "A long table", [], ["name"], rows)
    told = [f"Sentence {index}." for index in range(5)]
    one = replace(made.sections[0], sentences=told, tables=[long], drawings=[], published=[])
    words = text_in_print(html.of_section(1, one, 1), tmp_path)
    assert "Sentence 4." in words and "row39" not in words
    assert "A long table (40 rows): folded, printed if opened" in words
    body = html.of_table("part", long)
    words = text_in_print(body.replace("<details>", "<details open>"), tmp_path)
    assert "row39" in words and "if opened" not in words
    text_in_print(body, tmp_path)
    probe = """<script>addEventListener("load", () => {
      const shown = () => document.querySelector("table").getBoundingClientRect().height > 0;
      const before = shown();
      document.querySelector("details").open = true;
      document.documentElement.dataset.shown = [before, shown()].join(" ");
    });</script>"""
    path = tmp_path / "page.html"
    path.write_text(path.read_text("utf-8") + probe, encoding="utf-8")
    dumped = chromium(tmp_path, "--dump-dom", path.as_uri()).stdout
    assert 'data-shown="false true"' in dumped


@needs_browser
@pytest.mark.skipif(shutil.which("pdfinfo") is None, reason="no pdfinfo: tools/deps.sh tests")
@pytest.mark.parametrize(
    ("copies", "size", "upright"),
    [(1, (6, 12), [False, True]), (1, (12, 6), [False]), (4, (7, 3.8), [False]),
     (4, (11, 6), [False] * 4)],
)  # fmt: skip
def test_pages_of_figures_in_print(tmp_path, copies, size, upright):
    """Figures that are higher than wide have upright pages; small ones are side by side."""
    drawn = Drawing("part-f", "A figure.", "f: a.h5", Figure(figsize=size))
    before = "<p>Before.</p>" if copies == 1 else ""
    text_in_print(before + copies * html.image(drawn, 1), tmp_path)
    told = subprocess.run(["pdfinfo", "-l", "9", tmp_path / "page.pdf"], capture_output=True,
                          text=True, check=True).stdout  # fmt: skip
    sizes = re.findall(r"size: +([\d.]+) x ([\d.]+)", told)
    assert [float(across) < float(down) for across, down in sizes] == upright


@needs_browser
def test_console_errors_are_detected(tmp_path):
    path = tmp_path / "bad.html"
    path.write_text("<script>console.error('here'); missing();</script>")
    assert len(console(chromium(tmp_path, "--dump-dom", path.as_uri()).stderr)) == 2
