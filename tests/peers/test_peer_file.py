"""bench/peers/peer_file.py: what the shared writer of the peers puts into a file."""

import h5py
import peer_file
import pytest
from peer_file import Run

from analysis.results import read_file
from result_files import undescribed
from synthetic import around

ROW = {
    "software": "PyTorch 2", "variant": "tuned", "size": "small", "context": 128, "batch_size": 4,
    "status": "ok", "loss": 9.2, "step_median_s": 0.5, "peak_bytes": 10,
    "samples": {"step": [[0.5] * 6]}, "samples_warmup": {"step": [[1.0, 0.5]]},
}  # fmt: skip
DONE = {"created": "2026-12-01T00:00:00Z"}


def peer(**changes):
    case = peer_file.peer_case(ROW | changes)
    case.results |= DONE
    return case


@pytest.fixture
def launched(own):
    """launched("2026-12-01T00:00:00Z"): a launch that started then, and our case of it."""

    def of(started):
        origin, (case,) = own([{"size": "small", "layers": 12}], [0.4])
        case.factors |= {"software": "paceline abc", "variant": "paceline compiled"}
        case.results |= DONE
        return Run(f"python3 x.py {started}", started, origin), case

    return of


def test_a_row_of_the_peer_is_a_case():
    case = peer()
    assert case.factors == {name: ROW[name] for name in
                            ("software", "variant", "size", "context", "batch_size")}  # fmt: skip
    assert case.results["step_median_s"] == 0.5
    assert case.results["reason"] == ""
    assert (case.samples, case.samples_warmup) == (ROW["samples"], ROW["samples_warmup"])
    assert "samples" in ROW  # which stays as it was


def test_cases_of_later_launches_are_added(launched, tmp_path):
    path = tmp_path / "new/file.h5"
    for started, context in (("2026-12-01T00:00:00Z", 128), ("2026-12-02T00:00:00Z", 256)):
        run, ours = launched(started)
        peer_file.append(path, "model-peers", run, [ours, peer(context=context)])
    results = read_file(path)
    assert list(results.frame["variant"]) == ["paceline compiled", "PyTorch tuned"] * 2
    assert list(results.frame["context"])[1::2] == [128, 256]
    measured = [samples.measured["step"].tolist() for samples in results.samples]
    assert measured == [[[0.4] * 6], [[0.5] * 6]] * 2
    assert results.samples[3].warmup["step"].tolist() == [[1.0, 0.5]]
    with h5py.File(path) as file:
        assert list(file["runs"]) == ["20261201T000000Z", "20261202T000000Z"]
        assert file.attrs["command"] == "python3 x.py 2026-12-02T00:00:00Z"
        runs = file["summary/run"].asstr()[:].tolist()
        assert runs == ["20261201T000000Z"] * 2 + ["20261202T000000Z"] * 2
        assert file["cases/0002"].attrs["run"] == "20261202T000000Z"
        assert file["cases/0003"].attrs["status"] == "ok"
        assert "reason" not in file["cases/0003"].attrs
    assert not path.with_name("file.h5.partial").exists()


def test_a_column_that_the_other_side_lacks_is_empty_there(launched, tmp_path):
    run, ours = launched("2026-12-01T00:00:00Z")
    peer_file.append(tmp_path / "f.h5", "model-peers", run, [ours, peer(sdpa_backend="cudnn")])
    with h5py.File(tmp_path / "f.h5") as file:
        assert file["summary/sdpa_backend"].asstr()[:].tolist() == ["", "cudnn"]
        layers = file["summary/layers"][:]
        assert layers[0] == 12 and layers[1] != layers[1]


def test_every_column_of_the_peer_is_described(launched, tmp_path):
    """Unknown ones are an error: every dataset has a unit and a description."""
    run, _ = launched("2026-12-01T00:00:00Z")
    run.origin.described |= dict.fromkeys(run.origin.described, ("text", "of paceline"))
    path = tmp_path / "f.h5"
    peer_file.append(path, "model-peers", run, [peer()])
    assert undescribed(path, set()) == []
    with h5py.File(path) as file:
        assert file["summary/peak_bytes"].attrs["unit"] == "bytes"
    with pytest.raises(KeyError, match="unheard_of"):
        peer_file.append(path, "model-peers", run, [peer(unheard_of=1)])
    assert len(read_file(path).frame) == 1


def test_the_headline_is_the_step(launched, tmp_path):
    samples = {"communication_exposed": around(0.1), "step": around(0.5)}
    run, _ = launched("2026-12-01T00:00:00Z")
    peer_file.append(tmp_path / "f.h5", "model-peers", run, [peer(samples=samples)])
    with h5py.File(tmp_path / "f.h5") as file:
        assert file["cases/0000/samples"].attrs["headline"] == "step"
