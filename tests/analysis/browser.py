"""A page in headless Chromium: its console, and what MEASURE finds in it."""

import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

WIDTH = 1280
# Measures in the open document: its width, images that did not load, elements that extend beyond
# the window outside of scrolling parts, text below 12 px, unfolded tables that scroll sideways; and
# the width with all details open.
MEASURE = """<script>addEventListener("load", () => {
  const root = document.documentElement;
  const broken = [...document.images].filter(i => !i.complete || !i.naturalWidth || !i.width);
  const folded = root.scrollWidth;
  const sideways = [...document.querySelectorAll(".wide")].filter(
    e => e.scrollWidth > e.clientWidth);
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  const out = [...document.querySelectorAll("main *")].filter(
    e => !e.closest(".wide") && e.getBoundingClientRect().right > innerWidth);
  const small = [...document.querySelectorAll("p, li, td, th, figcaption")].filter(
    e => parseFloat(getComputedStyle(e).fontSize) < 12);
  root.dataset.measured = [innerWidth, folded, root.scrollWidth, document.images.length,
                           broken.length, out.length, small.length,
                           sideways.length].join(" ");
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
