"""`paceline plan`: the course's figures, questions, hardware, refused layouts, printed text."""

import json
import re
import resource

import pytest

from plan_output import plan

XXL = ("plan", "--preset", "xxl")


def test_figures_of_the_course(paceline):
    found = plan(paceline, "--preset", "xxl")
    (state,) = found["state"]
    assert state["parameters"] == 219_848_638_464
    assert state["state_bytes"] == 16 * 219_848_638_464
    devices = {row["hardware"]: row for row in found["devices"]}
    assert (devices["h100"]["read_as_gb"], devices["h100"]["read_as_gib"]) == (44, 41)
    assert (devices["tpu-v5p"]["read_as_gb"], devices["tpu-v5p"]["read_as_gib"]) == (38, 35)
    assert found["activations"][0]["saved_bytes_per_token"] == 17_547_264
    (shared,) = found["sharded_activations"]
    assert (shared["devices_gb"], shared["devices_gib"]) == (38, 35)
    assert shared["devices_with_activations_gb"] == 46
    (bound,) = found["compute_bound"]
    assert round(bound["serial_tokens"]) == 25_302
    assert round(bound["serial_tokens_per_device"]) == 395
    assert round(bound["overlapped_tokens"]) == 20_444
    assert round(bound["overlapped_tokens_per_device"]) == 319
    assert round(bound["tensor_least_d_ff"]) == 10_222


def test_the_text_names_gb_and_gib_and_fits_a_terminal_within_a_second(paceline):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = paceline(*XXL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the processor: a busy machine waits
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
    assert "3,517.58 GB = 3,276.00 GiB" in done.out
    assert "219,848,638,464" in done.out
    assert "25,302 tokens" in done.out
    assert max(map(len, done.out.splitlines())) <= 100


@pytest.mark.parametrize(("context", "mib"), [(128, 5), (256, 10), (512, 20)])
def test_residual_stream(paceline, context, mib):
    found = plan(paceline, "--size", "2.7b", "--context", context)
    assert found["activations"][0]["residual_stream_bytes"] == mib * 2**20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fsdp", 16, "--tp", 4, "--ranks", 65), "--ranks: 65 is not --fsdp 16 x --tp 4 = 64"),
        (("--ranks", 6, "--tp", 4), "--ranks: 6 cannot be split into groups of --tp 4"),
        (("--size", "xl", "--tp", 2), "--tp: 2 ranks do not divide --heads 25"),
        (("--d-model", 64, "--d-ff", 128), "--d-model: needs --layers and --heads"),
        (("--blocks", "two-matrix", "--layers", 2), "--layers: needs --d-model and --d-ff"),
        (("--size", "custom"), "--size: custom needs --d-model, --d-ff, --layers and --heads"),
        (("--memory", 0), "--memory: must be above 0"),
        (("--fsdp", 2**20, "--tp", 2), "--fsdp: 1048576 x --tp 2 are 2097152 ranks; use 1048576"),
        (("--hardware", "h1000"), "--hardware: 'h1000' is unknown; choose h100"),
        (("--hardware", "tpu-v5p"), "--hardware: tpu-v5p has no stated peak for fp32"),
        (("--preset", "xxl", "--heads", 8), "--heads: goes with --blocks transformer"),
        (("--sync", "flat", "--shard", "zero1"), "--sync: cannot be combined with --shard"),
        (("--sharded-activations", 2), "--sharded-activations: "),
        (("--run-tokens", 1e9), "--run-tokens: goes with --ask run"),
        (("--mesh-axes", "2"), "--mesh-axes: takes two numbers: MX,MY"),
        (("--ask", "run"), "--ask: run needs --run-tokens N"),
        (("--ask", "best-bucket"), "--ask: best-bucket needs --ranks above --tp"),
        (("--ask", "best-bucket", "--ranks", 2, "--latency", 0), "needs --latency above 0"),
    ],
)
def test_impossible_layouts_are_refused_with_advice(paceline, options, message):
    done = paceline("plan", *options)
    assert done.code == 2
    assert message in done.message


def test_link_bandwidth_is_per_device(paceline):
    layout = ("--size", "large", "--fsdp", 8, "--tp", 4, "--link-bandwidth", "10GB")
    found = plan(paceline, *layout)
    assert found["layout"][0]["ranks"] == 32
    parameters = found["state"][0]["parameters"]
    assert found["compute_bound"][0]["exchange_s"] == pytest.approx(4 * parameters / 4 / 10e9)


def test_hardware_by_options(paceline):
    options = ("--memory", "40GB", "--peak-tflops", 100, "--link-bandwidth", "10GB")
    found = plan(paceline, *options)
    assert found["layout"][0]["peak_flops_per_s"] == 1e14
    assert found["step_time"][0]["traffic_s"] == 0  # no memory bandwidth is known
    out = paceline("plan", *options).out
    assert "bytes / unknown, activations" in out
    assert "inf" not in out.replace(",", " ").split()
    for name, group in (("cpu", "cpu fp32"), ("X1", "cuda fp32")):
        row = ask(paceline, "work", "--hardware", name, *options)
        assert row["group"].startswith(group)


OWN_DEVICES = """
[own]
memory_GB = 24
half_TFLOP_per_s = 165
memory_GB_per_s = 1008
link_GB_per_s = 32
network_GB_per_s = 12.5
node_devices = 2
source = "the vendor's data sheet"

[h100]
memory_GB = 94
half_TFLOP_per_s = 835
memory_GB_per_s = 3900
link_GB_per_s = 450
network_GB_per_s = 400
node_devices = 8
source = "the NVL form"
"""


def test_hardware_file_adds_and_replaces_devices(paceline, tmp_path):
    (tmp_path / "devices.toml").write_text(OWN_DEVICES)
    options = ("--hardware-file", "devices.toml", "--precision", "bf16")
    found = plan(paceline, *options, "--hardware", "own")
    assert found["layout"][0]["peak_flops_per_s"] == 165e12
    assert {row["hardware"]: row["memory"] for row in found["devices"]}["own"] == 24
    replaced = plan(paceline, *options)  # h100 is the default
    assert replaced["layout"][0]["peak_flops_per_s"] == 835e12
    known = plan(paceline, *options, "--hardware", "h200")
    assert known["layout"][0]["peak_flops_per_s"] == 989.4e12


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (OWN_DEVICES, ("--hardware", "owm"), "--hardware: 'owm' is unknown; choose h100, own, "),
        (OWN_DEVICES, ("--hardware", "own"), "own has no stated peak for fp32"),
        (
            "[own]\nmemory_GB = 2\n",
            ("--hardware", "own"),
            "devices.toml:1:2: own lacks node_devices",
        ),
        ("[own\n", ("--hardware", "own"), "devices.toml:1"),
        (None, ("--hardware", "own"), "devices.toml"),
    ],
)
def test_bad_hardware_files_are_refused(paceline, tmp_path, content, options, message):
    if content is not None:
        (tmp_path / "devices.toml").write_text(content)
    done = paceline("plan", "--hardware-file", "devices.toml", *options)
    assert done.code == 2
    assert message in done.message


def ask(paceline, question: str, *options: object) -> dict:
    done = paceline("plan", *options, "--ask", question, "--json")
    assert done.code == 0, done.err
    (row,) = map(json.loads, done.out.splitlines())
    assert row["question"] == question
    return row


QUESTIONS = "largest-batch,largest-context,fewest-devices,memory,best-bucket,run,step,work"


def test_each_question_is_answered_in_one_line(paceline):
    done = paceline(*XXL, "--ask", QUESTIONS, "--run-tokens", 1e12)
    assert done.code == 0, done.err
    assert [line.split(":")[0] for line in done.out.splitlines()] == QUESTIONS.split(",")


def test_the_largest_batch_fits_and_one_more_does_not(paceline):
    model = ("--size", "xl", "--context", 512)
    best = ask(paceline, "largest-batch", *model)["largest"]
    first, more = (
        ask(paceline, "memory", *model, "--batch-size", batch)["peak_bytes"]
        for batch in (best, best + 1)
    )
    assert first <= 80e9 < more


def test_the_fewest_devices_fit_and_one_fewer_does_not(paceline):
    model = ("--size", "10b", "--context", 512, "--precision", "bf16")
    best = ask(paceline, "fewest-devices", *model, "--fsdp", 1)["devices"]
    fewer, enough = (
        ask(paceline, "memory", *model, "--fsdp", n)["peak_bytes"] for n in (best - 1, best)
    )
    assert enough <= 80e9 < fewer
    assert ask(paceline, "fewest-devices", "--size", "10b")["devices"] == 0  # replicas


def test_no_batch_is_compute_bound_if_tensor_parallel_collectives_take_longer(paceline):
    """Tables show '-', JSON has null."""
    small = ("--size", "tiny", "--tp", 2, "--link-bandwidth", "1KB")
    done = paceline("plan", *small)
    rows = [line.split() for line in done.out.splitlines() if line.startswith("as planned")]
    assert [row[2:4] for row in rows] == [["-", "-"]]
    assert "inf" not in done.out.split()
    table = plan(paceline, *small)["what_if"]
    assert table[0]["serial"] is None


def test_best_bucket_is_the_square_root_of_bytes_latency_and_bandwidth(paceline):
    row = ask(paceline, "best-bucket", "--size", "xl", "--ranks", 2, "--latency", 20)
    assert row["gradient_bytes"] == 4 * 1_998_235_200
    assert row["latency_s"] == pytest.approx(20e-6)
    product = row["gradient_bytes"] * row["latency_s"] * row["bandwidth_bytes_per_s"]
    assert row["bucket_bytes"] == pytest.approx(product**0.5)
    row = ask(paceline, "best-bucket", "--size", "tiny", "--ranks", 2, "--latency", 1e6)
    assert row["bucket_bytes"] == row["gradient_bytes"]  # no bucket is larger


def test_device_hours_are_run_time_times_devices(paceline):
    row = ask(paceline, "run", "--size", "xl", "--ranks", 8, "--run-tokens", 1e11)
    assert row["device_hours"] == pytest.approx(8 * row["run_s"] / 3600)
    assert row["tokens_per_s"] * row["run_s"] == pytest.approx(1e11)
    assert row["days"] == pytest.approx(row["run_s"] / 86400)


@pytest.mark.parametrize("question", ["largest-batch", "largest-context"])
def test_nothing_fits_into_little_memory(paceline, question):
    row = ask(paceline, question, "--size", "xl", "--memory", "1GB")
    assert row["largest"] == 0
    assert row["peak_bytes"] > row["memory_bytes"] == 1e9
    done = paceline("plan", "--size", "tiny", "--memory", 5)
    assert "does not fit in 5 bytes" in done.out
    assert done.out.startswith("1 rank = 1 data-parallel")


def test_an_answer_has_its_units(paceline):
    done = paceline("plan", "--size", "xl", "--fsdp", 2, "--ask", "best-bucket,largest-batch")
    bucket, batch = done.out.splitlines()
    assert re.fullmatch(
        r"best-bucket: bucket \S+ MB, gradient 7.99 GB, latency 10.0 us, bandwidth \S+ GB/s", bucket
    )
    assert re.fullmatch(r"largest-batch: largest \d+, peak \S+ GB, memory 80\.0 GB", batch)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (("--preset", "xxl"), "On more than 8960 ranks the exchange crosses nodes: 90.0 GB/s a "
         "device instead of 360 GB/s"),
        (("--hardware", "h200"), "On more than 8 ranks the exchange crosses nodes: 400 GB/s a "
         "device instead of 450 GB/s"),
        (("--hardware", "h200", "--link-bandwidth", "100GB"), ""),
    ],
)  # fmt: skip
def test_weak_scaling_names_the_bandwidth_between_nodes(paceline, options, note):
    out = " ".join(paceline("plan", *options).out.split())
    assert ("crosses nodes" in out) == bool(note)
    assert note in out


def test_efficiency_falls_as_replicas_grow(paceline):
    rows = plan(paceline, "--size", "small", "--context", 1024, "--latency", 100)["scaling"]
    values = [row["efficiency"] for row in rows]
    assert len(values) == 15  # 1 to 16,384
    assert values[0] == 1
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1


@pytest.mark.parametrize(("size", "rows"), [("xl", 0), ("large", 1)])
def test_wider_tensor_parallelism_is_offered_where_heads_divide(paceline, size, rows):
    found = plan(paceline, "--size", size, "--ranks", 2)["what_if"]
    assert sum(row["what"].startswith("tensor parallel") for row in found) == rows


LAYOUT = ("--shard", "zero1", "--ranks", 64, "--precision", "fp32", "--hardware", "h100")


@pytest.mark.parametrize("options", [(), LAYOUT])
def test_the_printed_formula_gives_the_least_d_ff(paceline, options):
    (row,) = plan(paceline, "--preset", "xxl", *options)["compute_bound"]
    text = " ".join(paceline(*XXL, *options).out.split())
    formula = text.split("least d_ff for c > t")[1].split("= ")[1].split(";")[0]
    value = eval(formula.replace("x", "*"))
    assert value == pytest.approx(row["tensor_least_d_ff"], rel=1e-3)


def test_memory_in_gib_is_not_read_as_gb(paceline):
    done = paceline(*XXL, "--memory", "80GiB")
    assert "tpu-v5p of 80GiB" in done.out
    found = plan(paceline, "--preset", "xxl", "--memory", "80GiB")
    assert found["devices"][0] == {"devices": 41}
    assert found["devices"][1]["read_as_gb"] == 44  # the h100 of the table
    assert found["sharded_activations"][0].keys() == {"devices", "devices_with_activations"}


def test_all_activations_sharded_need_the_fewest_devices(paceline):
    def devices(part: float, *layout: object) -> float:
        (row,) = plan(paceline, *layout, "--sharded-activations", part)["sharded_activations"]
        return row["devices_with_activations_gb"]

    xxl = ("--preset", "xxl")
    assert devices(1, *xxl) < devices(0.5, *xxl) < devices(0.1, *xxl)
    assert devices(0.5, "--size", "10b") == 3
    assert "sharded_activations" not in plan(paceline, "--size", "10b")


def test_a_device_has_its_name_in_result_files(paceline):
    (layout,) = plan(paceline, "--hardware", "NVIDIA H200")["layout"]
    assert layout == plan(paceline, "--hardware", "h200")["layout"][0]
