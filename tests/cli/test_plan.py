"""`paceline plan`: figures of the course, layouts that cannot be, and what a person reads."""

import json
import time

import pytest

XXL = ("plan", "--preset", "xxl")


def sections(out: str) -> dict[str, list[dict]]:
    """The rows of each section."""
    found: dict[str, list[dict]] = {}
    for line in out.splitlines():
        row = json.loads(line)
        found.setdefault(row.pop("section"), []).append(row)
    return found


def plan(paceline, *options: object) -> dict[str, list[dict]]:
    done = paceline("plan", *options, "--json")
    assert done.code == 0, done.err
    return sections(done.out)


def test_figures_of_the_course(paceline):
    found = plan(paceline, "--preset", "xxl")
    (state,) = found["state"]
    assert state["parameters"] == 219_848_638_464
    assert state["state_bytes"] == 16 * 219_848_638_464
    devices = {row["hardware"]: row for row in found["devices"]}
    assert (devices["h100"]["read_as_gb"], devices["h100"]["read_as_gib"]) == (44, 41)
    assert (devices["tpu-v5p"]["read_as_gb"], devices["tpu-v5p"]["read_as_gib"]) == (38, 35)
    assert found["activations"][0]["saved_bytes_per_token"] == 17_547_264
    (half,) = found["half_sharded"]
    assert (half["devices_gb"], half["devices_gib"]) == (38, 35)
    (bound,) = found["compute_bound"]
    assert round(bound["serial_tokens"]) == 25_302
    assert round(bound["serial_tokens_per_device"]) == 395
    assert round(bound["overlapped_tokens"]) == 20_444
    assert round(bound["overlapped_tokens_per_device"]) == 319
    assert round(bound["tensor_least_d_ff"]) == 10_222
    (published,) = found["published"]
    assert round(published["one_axis_group_tokens"]) == 2_799


def test_the_text_names_gb_and_gib_and_fits_a_terminal(paceline):
    done = paceline(*XXL)
    assert done.code == 0, done.err
    assert "3,517.58 GB = 3,276.00 GiB" in done.out
    assert "219,848,638,464" in done.out
    assert "25,302 tokens" in done.out
    assert max(map(len, done.out.splitlines())) <= 100


@pytest.mark.parametrize(("context", "mib"), [(128, 5), (256, 10), (512, 20)])
def test_residual_stream(paceline, context, mib):
    found = plan(paceline, "--size", "2.7b", "--context", context)
    assert found["activations"][0]["residual_stream_bytes"] == mib * 2**20


def test_a_plan_takes_less_than_a_second(paceline):
    begin = time.monotonic()
    assert paceline(*XXL).code == 0
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fsdp", 16, "--tp", 4, "--ranks", 65), "--ranks: 65 is not --fsdp 16 x --tp 4 = 64"),
        (("--ranks", 6, "--tp", 4), "--ranks: 6 cannot be split into groups of --tp 4"),
        (("--size", "xl", "--tp", 2), "--tp: 2 ranks do not divide --heads 25"),
        (("--fsdp", 2, "--shard", "zero1"), "--fsdp: stands for --shard fsdp"),
        (("--d-model", 64, "--d-ff", 128), "--d-model: needs --d-ff, --layers and --heads"),
        (("--hardware", "h1000"), "--hardware: 'h1000' is unknown; choose h100"),
        (("--hardware", "tpu-v5p"), "--hardware: tpu-v5p has no stated peak for fp32"),
        (("--mesh-axes", "2"), "--mesh-axes: takes two numbers: MX,MY"),
    ],
)
def test_what_cannot_be_is_refused_with_the_cure(paceline, options, message):
    done = paceline("plan", *options)
    assert done.code == 2
    assert message in done.message


def test_hardware_by_options(paceline):
    found = plan(paceline, "--memory", "40GB", "--peak", 100, "--link-bandwidth", "10GB")
    assert found["layout"][0]["peak_flops_per_s"] == 1e14
    assert found["step_time"][0]["traffic_s"] == 0  # no memory bandwidth is known
