"""The JSON lines of `paceline plan`."""

import json


def sections(out: str) -> dict[str, list[dict]]:
    """The JSON rows by section."""
    found: dict[str, list[dict]] = {}
    for line in out.splitlines():
        row = json.loads(line)
        found.setdefault(row.pop("section"), []).append(row)
    return found


def plan(paceline, *options: object) -> dict[str, list[dict]]:
    done = paceline("plan", *options, "--json")
    assert done.code == 0, done.err
    return sections(done.out)


def check(paceline, path, *options: object) -> list[dict]:
    done = paceline("plan", "--check", path, *options, "--json")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]
