"""A session that must not skip fails when it does; slow tests and browsers run only when asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SETTINGS = "[pytest]\nmarkers =\n  gpu: needs a GPU\n  slow: minutes\n  browser: Chromium\n"

ALLOWED = {
    "tests/test_passes.py": "def test_it(): pass\n",
    "tests/test_gpu.py": "import pytest\n@pytest.mark.gpu\n@pytest.mark.skip\ndef test_it(): pass\n",
    "tests/test_xfail.py": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
    "tests/test_slow.py": "import pytest\n@pytest.mark.slow\ndef test_it(): assert False\n",
    "tests/test_page.py": "import pytest\n@pytest.mark.browser\ndef test_it(): assert False\n",
    "package/passes.py": '"""\n>>> 1 + 1\n2\n"""\n',
}
FORBIDDEN = {
    "tests/test_skips.py": "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n",
    "tests/test_import.py": "import pytest\npytest.skip('no', allow_module_level=True)\n",
    "package/doctest_skips.py": '"""\n>>> 1 / 0  # doctest: +SKIP\n"""\n',
}


def session(
    folder: Path, modules: dict[str, str], *arguments: str, no_skips: str
) -> tuple[int, str]:
    """Exit code and output of pytest over tests/ and, for doctests, over a package beside it."""
    modules = modules | {"pytest.ini": SETTINGS, "tests/conftest.py": CONFTEST.read_text()}
    for name, text in modules.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "--doctest-modules", "tests", "package", *arguments]
    environment = os.environ | {"TOKENMILL_NO_SKIPS": no_skips}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return result.returncode, result.stdout


def test_skips_fail_the_session(tmp_path: Path) -> None:
    code, output = session(tmp_path, ALLOWED | FORBIDDEN, no_skips="1")
    assert (code, "2 deselected" in output) == (1, True), output
    listed = output.partition("which this run forbids")[2]
    named = {name for name in ALLOWED | FORBIDDEN if name in listed}
    assert named == set(FORBIDDEN)


def test_skips_are_allowed_elsewhere(tmp_path: Path) -> None:
    code, output = session(tmp_path, ALLOWED | FORBIDDEN, no_skips="0")
    assert code == 0, output
    assert "which this run forbids" not in output


@pytest.mark.parametrize("marker", ["slow", "browser"])
def test_marked_tests_run_when_asked_for(tmp_path: Path, marker: str) -> None:
    code, output = session(tmp_path, ALLOWED, "-m", marker, no_skips="1")
    assert (code, "1 failed, 5 deselected" in output) == (1, True), output
