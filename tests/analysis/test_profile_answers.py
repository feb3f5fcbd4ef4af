"""Tables of what the kernels of profiled cases answer."""

import numpy as np
import pandas as pd

from analysis import profile_answers

NAN = float("nan")
SOFTMAX = {
    "softmax_s": 1.0,
    "attention_products_s": 4.0,
    "softmax_flops": 10.0,
    "attention_products_flops": 100.0,
}
FORWARD = {"forward_host_s": 3.0, "forward_events_s": 2.5, "forward_kernels_s": 2.0}


def costliest(phases, kernel):
    names = profile_answers.COSTLIEST[phases].values()
    return dict(zip(names, (kernel, 2.0, 0.5, "add 9%"), strict=True))


def test_answers_come_from_the_profiled_cases():
    plain = {"case": "a", "profile_source": ""} | SOFTMAX | FORWARD
    profiled = plain | {"case": "b", "profile_source": "cupti"}
    answers = profile_answers.of(pd.DataFrame([plain, profiled, plain | {"profile_source": None}]))
    assert set(answers) == {"profile/forward", "profile/softmax"}
    (forward,) = answers["profile/forward"].to_dict("records")
    assert forward == {"case": "b", "host": 3.0, "events": 2.5, "busy": 2.0}
    (softmax,) = answers["profile/softmax"].to_dict("records")
    assert softmax["time_ratio"] == 0.25
    assert softmax["flops_ratio"] == 0.1


def test_the_costliest_kernels_of_a_case_stand_together():
    rows = [
        {"case": case, "profile_source": "cupti"}
        | costliest("forward", f"f{case}")
        | costliest("forward_backward", f"b{case}")
        for case in "xy"
    ]
    table = profile_answers.of(pd.DataFrame(rows))["profile/costliest"]
    assert list(table["kernel"]) == ["fx", "bx", "fy", "by"]
    assert list(table["phases"]) == ["forward", "forward_backward"] * 2


def test_without_a_profile_there_are_none():
    assert profile_answers.of(pd.DataFrame({"case": ["a"]})) == {}
    unprofiled = pd.DataFrame([{"case": "a", "profile_source": ""} | FORWARD])
    assert profile_answers.of(unprofiled) == {}


def test_a_case_that_lacks_the_figures_has_no_row():
    cases = pd.DataFrame([{"case": "a", "profile_source": "cupti"} | FORWARD] * 2)
    cases.loc[1, list(FORWARD)] = np.nan
    assert len(profile_answers.of(cases)["profile/forward"]) == 1
