"""Control characters in the text of a file, or in its name, are shown, and obeyed by nothing."""

import h5py
import pytest

from analysis import load
from analysis.__main__ import main
from legibility import texts
from synthetic import STEP, case

ODD = "a\x1b]0;T\x07\x1b[2J\r\nINJECTED\u202e"
SHOWN = r"a\x1b]0;T\x07\x1b[2J\r\nINJECTED\u202e"


@pytest.fixture
def odd(make_file, tmp_path):
    """A file with such text wherever a file has text, with such a name."""
    cases = [case({"mode": name + ODD, "size": ODD}, STEP, STEP) for name in "xy"]
    cases.append(case({"mode": "z", "size": ODD}, status="oom", reason=ODD))
    path = make_file(cases, experiment="model", command=ODD, created=ODD, software_version=ODD)
    with h5py.File(path, "r+") as file:
        file["ranks/device"][...] = ODD
        file["summary/warnings"] = [ODD] * 3
        file["summary"][ODD] = [1.0] * 3
        file["cases"].move("case-000", ODD)
        file["summary/case"][0] = ODD
    return path.rename(tmp_path / f"{ODD}.h5")


def is_plain(words):
    """Without control characters, and no line was begun by the file but that of a command."""
    lines = words.split("\n")
    return all(map(str.isprintable, lines)) and not [
        line for line in lines if line.strip().startswith("INJECTED") and line[:4] != " " * 4
    ]


@pytest.mark.parametrize("name", ["t.md", "t.csv", "r.html"])
def test_tables_and_reports(odd, tmp_path, name):
    (tmp_path / "out").mkdir()
    main(["tables" if name[0] == "t" else "report", str(odd), "--output",
          str(tmp_path / "out" / name)])  # fmt: skip
    for path in (tmp_path / "out").rglob("*"):
        if path.suffix in (".md", ".csv"):
            assert is_plain(path.read_text("utf-8"))
            assert SHOWN in path.read_text("utf-8")
        assert path.name.isprintable()


def test_latex(odd, tmp_path):
    main(["tables", str(odd), "--output", str(tmp_path / "t.tex")])
    words = (tmp_path / "t.tex").read_text("utf-8")
    assert all(map(str.isprintable, words.split("\n")))
    assert r"a\textbackslash{}x1b]0;T" in words


def test_figures(odd, tmp_path):
    main(["figures", str(odd), "--output", str(tmp_path / "drawn.svg")])
    for path in tmp_path.glob("drawn*.svg"):
        words = texts(path)
        assert all(map(str.isprintable, words))
        assert any(SHOWN in word for word in words)


def test_other_programs_can_name_the_case(odd):
    assert load(odd)["case"][0] == SHOWN


def test_errors(odd, tmp_path, capsys):
    with h5py.File(odd, "r+") as file:
        del file["summary"][ODD]
        file["summary"][ODD] = [[1.0]]
    with pytest.raises(SystemExit):
        main(["tables", str(odd), "--output", str(tmp_path / "t.md")])
    (line,) = capsys.readouterr().err.split("\n")[:-1]
    assert line.isprintable()
    assert line.endswith(rf"/summary/{SHOWN} is not a column of numbers or texts")


DOLLARS = ("$x_1$", r"$\frac{$", "US$ 5 and US$ 6", "$", r"\$5$")


def test_dollars_are_no_formula(make_file, tmp_path):
    cases = [case({"size": words, "mode": "a$b$"}, STEP, STEP) for words in DOLLARS]
    path = make_file(cases, f"{DOLLARS[0]}.h5", command=DOLLARS[2], software_version=DOLLARS[1])
    with h5py.File(path, "r+") as file:
        file["ranks/device"][...] = DOLLARS[1]
    main(["figures", str(path), "--output", str(tmp_path / "drawn.svg")])
    words = "\n".join(texts(tmp_path / "drawn.svg"))
    assert [one for one in DOLLARS if one not in words] == []
