"""Every program of examples/ runs and prints what its docstring says it prints."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
MAX_LINES = 40


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_prints_what_it_says(path: Path, tmp_path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_LINES
    docstring = ast.get_docstring(ast.parse(source), clean=False) or ""
    _, found, promised = docstring.partition("Prints:\n")
    assert found, "the docstring ends with `Prints:` and the output"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == textwrap.dedent(promised)
