"""Settings from TOML and `--set`: what they become, and what is refused in which words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tokenmill.errors import ConfigError, SourceError
from tokenmill.lm.config_file import apply_overrides, read_config, require_known, settings_from
from tokenmill.lm.model_config import ModelConfig, preset


@dataclass(frozen=True)
class Run:
    out: Path
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)
    log: tuple[str, ...] = ()
    compile: bool | None = None
    schedule: Literal["cosine", "wsd"] = "cosine"
    model: ModelConfig = field(default_factory=ModelConfig)


def test_a_file_becomes_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'out = "runs/a"\nlr = 1\nbetas = [0.9, 1]\nlog = ["wandb"]\ncompile = "none"\n'
        'schedule = "wsd"\n[model]\nd_model = 64\nsoftcap = 30\n'
    )
    values = apply_overrides(read_config(file), ["model.num_layers=2", "model.d_ff=none"])
    found = settings_from(Run, values)
    model = ModelConfig(d_model=64, softcap=30.0, num_layers=2)
    assert found == Run(Path("runs/a"), 1.0, (0.9, 1.0), ("wandb",), None, "wsd", model)
    assert isinstance(found.lr, float)


def test_values_are_toml_or_words() -> None:
    given = [
        "a.b=1",
        "a.c=1e-3",
        "d=true",
        "e=[1, 2]",
        'f="x y"',
        "g=x y",
        "h=run=1",
        "i=",
        "j=1\nk=2",
    ]
    assert apply_overrides({}, given) == {
        "a": {"b": 1, "c": 0.001},
        "d": True,
        "e": [1, 2],
        "f": "x y",
        "g": "x y",
        "h": "run=1",
        "i": "",
        "j": "1\nk=2",
    }


def test_overrides_leave_what_they_were_given() -> None:
    before = {"model": {"d_model": 1}}
    assert apply_overrides(before, ["model.d_model=2", "model.d_model=3"]) == {
        "model": {"d_model": 3}
    }
    assert before == {"model": {"d_model": 1}}


def test_the_rest_is_the_base() -> None:
    base = preset("17m")
    assert settings_from(ModelConfig, {"context": 512}, "model", base) == preset("17m", context=512)
    run = Run(Path("a"), model=base)
    nested = settings_from(Run, {"model": {"context": 512}}, "", run)
    assert nested == Run(Path("a"), model=preset("17m", context=512))


@pytest.mark.parametrize("wrong", ["d_model", "=1", "a..b=1", "a b=1", ".a=1", "a.=1"])
def test_what_is_no_setting(wrong: str) -> None:
    with pytest.raises(ConfigError, match="is not a setting"):
        apply_overrides({}, [wrong])


def test_a_value_has_no_settings() -> None:
    with pytest.raises(ConfigError, match=r"`a\.b` is a value, so `a\.b\.c` names nothing"):
        apply_overrides({"a": {"b": 1}}, ["a.b.c=2"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"model": {"d_modle": 1}},
            "unknown setting `model.d_modle`\nhint: did you mean `model.d_model`?",
        ),
        ({"learning": 1}, "unknown setting `learning`"),
        ({"lr": "fast"}, "`lr` must be a number, found `'fast'`"),
        ({"lr": True}, "`lr` must be a number, found `True`"),
        ({"model": {"d_model": 1.5}}, "`model.d_model` must be a whole number, found `1.5`"),
        (
            {"model": {"d_ff": "wide"}},
            "`model.d_ff` must be a whole number or `none`, found `'wide'`",
        ),
        ({"model": 3}, "`model` must be a table, found `3`"),
        ({"betas": [1]}, "`betas` must be a list, found `[1]`"),
        ({"log": ["a", 1]}, "`log[1]` must be a string, found `1`"),
        ({"schedule": "flat"}, "`schedule` must be one of `cosine`, `wsd`, found `'flat'`"),
        ({"out": 1}, "`out` must be a path, found `1`"),
        ({"compile": 1}, "`compile` must be true or false or `none`, found `1`"),
        ({"model": {"norm": "rms"}}, "unknown norm `rms`"),
    ],
)
def test_wrong_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(Run, {"out": "a", **values})
    assert str(caught.value).startswith(message)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        read_config(tmp_path / "no.toml")
    for wrong in (b"[model\n", b"a = \xff"):
        (tmp_path / "bad.toml").write_bytes(wrong)
        with pytest.raises(ConfigError, match="is not TOML"):
            read_config(tmp_path / "bad.toml")


def test_unknown_tables() -> None:
    require_known({"model": {}}, ["model", "train"])
    with pytest.raises(ConfigError, match="unknown table `modle`\nhint: did you mean `model`"):
        require_known({"modle": {}}, ["model", "train"], "table")
