"""The names of PyTorch's variants: bench/peers/step_cases.py and data_parallel_cases.py."""

import data_parallel_cases
import pytest
import step_cases


def test_suffixes_change_a_variant():
    chosen = step_cases.variant("master-weights+cudnn+whole+each-adamw")
    assert chosen.master_weights and chosen.captured and chosen.fused_matmuls
    assert (chosen.backend, chosen.parts, chosen.optimizer) == ("cudnn", False, "each")
    assert step_cases.variant("tuned+in-backward").in_backward
    assert step_cases.variant("captured-compile") == step_cases.VARIANTS["captured-compile"]
    zero = data_parallel_cases.variant("zero+tuned+captured")
    assert zero.strategy == "zero" and zero.bucket_view and zero.compiled == "parts"


@pytest.mark.parametrize("text", ["", "fast", "eager+fast", "master-weights+fused-adamw"])
def test_other_names_are_refused(text):
    with pytest.raises(ValueError, match="^" + text.replace("+", r"\+")):
        step_cases.variant_name(text)


@pytest.mark.parametrize("text", ["ddp+fast", "fsdp+masters"])
def test_other_names_of_data_parallel_variants_are_refused(text):
    with pytest.raises(ValueError, match="ddp"):
        data_parallel_cases.variant_name(text)


def test_every_listed_data_parallel_variant_exists():
    assert len({data_parallel_cases.variant(name) for name in data_parallel_cases.ALL}) == len(
        data_parallel_cases.ALL
    )
