"""The report in headless Chromium: no console errors, all figures load, no overflow, a PDF."""

import re
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: tools/deps.sh tests")

WIDTH = 1280
# Measures in the open document: its width, images that did not load, elements that extend beyond
# the window outside of scrolling parts, text below 12 px; and the width with all details open.
MEASURE = """<script>addEventListener("load", () => {
  const root = document.documentElement;
  const broken = [...document.images].filter(i => !i.complete || !i.naturalWidth || !i.width);
  const folded = root.scrollWidth;
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  const out = [...document.querySelectorAll("main *")].filter(
    e => !e.closest(".wide") && e.getBoundingClientRect().right > innerWidth);
  const small = [...document.querySelectorAll("p, li, td, th, figcaption")].filter(
    e => parseFloat(getComputedStyle(e).fontSize) < 12);
  root.dataset.measured = [innerWidth, folded, root.scrollWidth, document.images.length,
                           broken.length, out.length, small.length].join(" ");
});</script></body>"""


def chromium(folder, *arguments):
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--enable-logging=stderr", "--v=0", f"--user-data-dir={folder}/profile",
            f"--window-size={WIDTH},1000", *arguments,
        ],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def console(stderr):
    return [line for line in stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def opened(whole_page, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    path = folder / "report.html"
    path.write_text(whole_page.replace("</body>", MEASURE), encoding="utf-8")
    return chromium(folder, "--dump-dom", path.as_uri())


def test_the_console_is_silent(opened):
    assert console(opened.stderr) == []


def test_all_figures_load_and_nothing_overflows(opened, whole_page):
    measured = re.search(r'data-measured="([^"]+)"', opened.stdout)
    assert measured
    window, folded, unfolded, images, broken, out, small = map(int, measured[1].split())
    assert window == WIDTH
    assert max(folded, unfolded) <= WIDTH
    assert images == whole_page.count("<figure ") > 20
    assert (broken, out, small) == (0, 0, 0)


def test_printing_to_pdf(whole_page, tmp_path):
    path, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    path.write_text(whole_page, encoding="utf-8")
    done = chromium(tmp_path, f"--print-to-pdf={pdf}", path.as_uri())
    assert pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 100_000
    assert console(done.stderr) == []


def test_console_errors_are_detected(tmp_path):
    path = tmp_path / "bad.html"
    path.write_text("<script>console.error('here'); missing();</script>")
    assert len(console(chromium(tmp_path, "--dump-dom", path.as_uri()).stderr)) == 2
