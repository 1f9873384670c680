"""`tm.lm`: names that are there whatever was imported before."""

import importlib

import pytest

import tokenmill as tm


@pytest.mark.parametrize("name", ["evaluate", "generate", "import_model", "open_model", "pretrain"])
def test_a_function_stays_one_when_its_module_is_imported(name: str) -> None:
    module = importlib.import_module(f"tokenmill.lm.{name}")
    # What an import does at its end.
    setattr(tm.lm, name, module)
    assert getattr(tm.lm, name) is getattr(module, name)
