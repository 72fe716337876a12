"""The wheel claims two import names and holds what the product needs without the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return zipfile.ZipFile(next(folder.glob("*.whl")))


@pytest.mark.slow
@pytest.mark.network
def test_the_wheel_claims_only_its_two_names(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "expbench",
        "expbench_methods",
    }


@pytest.mark.slow
@pytest.mark.network
def test_the_wheel_holds_every_module_and_the_mini_suite(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for base, top in ((ROOT, "expbench"), (ROOT / "methods", "expbench_methods")):
        for path in (base / top).rglob("*"):
            if path.suffix in (".py", ".jsonl", ".inter", ".item", ".json", ".typed"):
                assert str(path.relative_to(base)) in names


def test_every_folder_with_modules_is_a_package() -> None:
    for top in (ROOT / "expbench", ROOT / "methods" / "expbench_methods"):
        folders = {path.parent for path in top.rglob("*.py")}
        assert [f for f in folders if not (f / "__init__.py").exists()] == []


def test_a_second_copy_of_the_methods_cannot_be_imported() -> None:
    code = "import methods.expbench_methods"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "put the folder `methods` on the path" in done.stderr


def test_pins_and_ranges_agree() -> None:
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.lower().split("==") for line in lines if "==" in line)
    assert (pins["torch"], pins["trl"]) == ("2.13.0", "1.16.0")
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for text in wanted:
        need = Requirement(text)
        pinned = (
            pins[need.name.lower().replace("-", "_")]
            if (need.name.lower().replace("-", "_") in pins)
            else pins[need.name.lower()]
        )
        assert need.specifier.contains(pinned), f"{text} does not allow the pinned {pinned}"
