"""The pages say what is true: every block runs, every link leads somewhere, every command and flag exists.

A page is run from top to bottom in a folder of its own. Its shell blocks run as in bash, where `tokenmill` and `python`
are those under test; its Python blocks share one namespace, and `>>>` examples must print exactly what follows.
Blocks under `<!-- not run: reason -->` are left out and counted here.
"""

import configparser
import contextlib
import doctest
import functools
import importlib.metadata
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import urllib.parse
import warnings
from pathlib import Path
from typing import Any

import pytest
from pages import (
    PAGES,
    REPOSITORY,
    SHELL,
    Block,
    Command,
    anchors_of,
    blocks_of,
    blurred,
    commands_of,
    name_of,
    prose_of,
)
from small_internet import a_small_internet

import tokenmill as tm
from tokenmill.cli.main import app

RUNNABLE = [
    page for page in PAGES if any(b.language in (*SHELL, "python") for b in blocks_of(page))
]
NOT_RUN = {"README.md": 2, "CONTRIBUTING.md": 1}
"""How many blocks of each page are left out. A new one is a line in a diff that somebody reads."""
MAY_STAY_OUT = ("pip", "uv", "cargo", "git")
PAGES_ABOUT_FLAGS = (
    "README.md",
    "docs/convert.md",
    "docs/counting.md",
    "docs/datasets.md",
    "docs/defaults.md",
    "docs/measuring.md",
    "docs/post-training.md",
    "docs/pull.md",
    "docs/sources.md",
    "docs/training.md",
    "docs/vocab-training.md",
)
REPORTS = ("throughput", "compression")
LM = (
    *("account", "pretrain", "sft", "dpo", "evaluate", "generate", "chat"),
    *("export", "import", "small-world"),
)
OF_OTHERS = {"--logdir", "--nproc-per-node", "--model", "--tasks"}
"""Flags of tensorboard, torchrun and lm-evaluation-harness, which pages name as well."""
BENCH = re.compile(r"(?:uv run )?python -m bench (?P<command>[\w-]+)(?P<rest>.*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def some_documents(number: int) -> list[str]:
    return [f"document {index} of part {number}: the cat sat on the mat" for index in range(8)]


def prepare_readme(folder: Path) -> None:
    """The two folders that its command line reads."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "data").mkdir()
    (folder / "shards").mkdir()
    for number in range(9):
        rows = pa.table({"text": some_documents(number)})
        pq.write_table(rows, folder / "shards" / f"shard_{number:05}.parquet")
        lines = "".join(f'{{"text": "{text}"}}\n' for text in some_documents(number))
        with pa.CompressedOutputStream(
            str(folder / f"data/part-{number}.jsonl.zst"), "zstd"
        ) as out:
            out.write(lines.encode())


def prepare_formats(folder: Path) -> None:
    tm.train(tm.documents(some_documents(0)), vocab_size=300, out=folder / "tok")


def prepare_datasets(folder: Path) -> None:
    """A dataset of stories, and the text it was made from."""
    import hashlib

    from make_dataset import EOS, encoded, make_dataset, small_tokenizer

    from tokenmill.dataset.manifest import InputRecord

    tokenizer = small_tokenizer()
    stories = [f"Story {i}: the cat sat on {'the mat, ' * (i % 5 + 1)}" for i in range(40)]
    splits = {"train": encoded(tokenizer, stories), "validation": encoded(tokenizer, stories[:4])}
    data = EOS.join(stories).encode()
    (folder / "stories.txt").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    inputs = [InputRecord("stories.txt", len(data), digest, "train")]
    make_dataset(folder / "ids", tokenizer, splits, inputs=inputs)


def prepare_course(folder: Path) -> None:
    """A tokenizer that another program has trained on the stories."""
    import course_bpe
    from small_internet import datasets

    name = "TinyStoriesV2-GPT4-train.txt"
    text = datasets()["roneneldan/TinyStories"][name].decode()
    (folder / "bpe_tokenizer").mkdir()
    course_bpe.write(folder / "bpe_tokenizer" / f"{name}-10k", course_bpe.train(text, 10_000))


def prepare_benchmarks(folder: Path) -> dict[str, Any]:
    path = folder / "en.txt"
    path.write_text("<|endoftext|>".join(some_documents(0)))
    return {"tm": tm, "path": path}


def prepare_training(folder: Path) -> None:
    """lm-evaluation-harness asks pip, git and the compiler about the machine, which takes longer than its tasks, and
    transformers for its version, which does not like our `regex` (tests/parity/test_artifact.py)."""
    import lm_eval.evaluator

    lm_eval.evaluator.add_env_info = lambda storage: None


def prepare_post_training(folder: Path) -> None:
    """transformers wants another version of `regex` when it is imported (tests/parity/test_artifact.py)."""
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else version(name)
    try:
        importlib.import_module("transformers")
    finally:
        importlib.metadata.version = version


def prepare_recipes(folder: Path) -> None:
    (folder / "recipes").symlink_to(REPOSITORY / "recipes")


PREPARE = {
    "README.md": prepare_readme,
    "docs/datasets.md": prepare_datasets,
    "docs/formats.md": prepare_formats,
    "docs/benchmarks.md": prepare_benchmarks,
    "docs/post-training.md": prepare_post_training,
    "docs/training.md": prepare_training,
    "docs/coming-from/001.md": prepare_course,
    "recipes/README.md": prepare_recipes,
}
"""What a reader of these pages has before they start."""


ONLINE = re.compile(r"docs/(pull|sources|coming-from/\d+)\.md")
"""Pages that fetch something."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `tokenmill` and `python` mean the ones under test."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, arguments in {"tokenmill": "-m tokenmill ", "python": ""}.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        script.chmod(0o755)
    plain = {"NO_COLOR": "1", "COLUMNS": "100", "TIKTOKEN_CACHE_DIR": ""}
    kept = {name: value for name, value in os.environ.items() if name != "LOG_LEVEL"}
    return {**kept, **plain, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_every_block_of_a_page_runs(
    page: Path, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("NO_COLOR", "COLUMNS", "TIKTOKEN_CACHE_DIR"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.delenv("LOG_LEVEL", raising=False)
    prepare = PREPARE.get(name_of(page))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    namespace |= (prepare(folder) if prepare else None) or {}
    internet = a_small_internet() if ONLINE.match(name_of(page)) else contextlib.nullcontext({})
    with internet as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        run_blocks(page, {**environment, **variables}, namespace)


def run_blocks(page: Path, environment: dict[str, str], namespace: dict[str, Any]) -> None:
    for block in blocks_of(page):
        if block.not_run is not None:
            continue
        if block.language in SHELL:
            for command in commands_of(block):
                run_command(page, command, environment)
        elif block.language == "python":
            run_python(page, block, namespace)


def run_command(page: Path, command: Command, environment: dict[str, str]) -> None:
    where = f"{name_of(page)}:{command.line}"
    if bench := BENCH.match(command.text):
        unknown = set(FLAG.findall(bench["rest"])) - set(FLAG.findall(bench_help(bench["command"])))
        assert not unknown, f"{where}: `bench {bench['command']}` has no {', '.join(unknown)}"
        return
    code, output = run_here(command.text) or run_in_bash(command.text, environment)
    should_fail = command.output.startswith("error: ")
    assert (code != 0) == should_fail, f"{where}: exit {code}\n{output}"
    if command.output:
        assert agree(command.output, output), (
            f"{where}: `{command.text}` prints\n{output}\nbut the page says\n{command.output}"
        )


def run_in_bash(text: str, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of anything a reader may type."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", text],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout


def run_here(text: str) -> tuple[int, str] | None:
    """The same for a `tokenmill` that needs no shell, in this process: starting takes longer
    than anything the pages do. `None` for the others."""
    if not text.startswith("tokenmill ") or set(text) & set("|<>&;$`*~\\"):
        return None
    log, output = logging.getLogger("tokenmill"), io.StringIO()
    before = log.handlers[:], log.propagate, log.level
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            app(shlex.split(text, comments=True)[1:], prog_name="tokenmill")
        raise AssertionError("a command ends by SystemExit")
    except SystemExit as end:
        code = end.code
    finally:
        log.handlers[:], log.propagate = before[:2]
        log.setLevel(before[2])
    assert isinstance(code, int)
    return code, output.getvalue()


def agree(promised: str, printed: str) -> bool:
    """Whether both say the same in other numbers; `...` stands for anything."""
    checker = doctest.OutputChecker()
    return checker.check_output(blurred(promised), blurred(printed), doctest.ELLIPSIS)


@functools.cache
def bench_help(command: str) -> str:
    """What `python -m bench COMMAND` takes: its runs last minutes, so the pages' flags are held against this."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", command, "--help"],
        cwd=REPOSITORY,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def run_python(page: Path, block: Block, namespace: dict[str, Any]) -> None:
    if ">>> " not in block.text:
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        with warnings.catch_warnings():
            # Pages may leave a file for Python to close, as people do.
            warnings.simplefilter("ignore", ResourceWarning)
            exec(code, namespace)
        return
    test = doctest.DocTestParser().get_doctest(
        block.text, namespace, f"{name_of(page)}:{block.line}", str(page), block.line - 1
    )
    messages: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=messages.append, clear_globs=False)
    namespace |= test.globs
    assert result.failed == 0, "".join(messages)


expected_failure = functools.partial(pytest.raises, AssertionError)


def test_a_false_page_is_noticed(tmp_path: Path, environment: dict[str, str]) -> None:
    """The runner itself can fail: by another word, by an exit code, by another value."""
    page = REPOSITORY / "README.md"
    run_command(
        page,
        Command(1, "echo merged 12 merges  0.3 s", "merged 7,935 merges 2 min 05 s"),
        environment,
    )
    with expected_failure(match="but the page says"):
        run_command(page, Command(1, "echo merged 12 merges", "learned 12 merges"), environment)
    with expected_failure(match="exit 1"):
        run_command(page, Command(1, "false | true", ""), environment)
    with expected_failure(match="exit 2"):
        run_command(page, Command(1, "tokenmill train --no-such-flag", ""), environment)
    with expected_failure(match="exit 0"):
        run_command(page, Command(1, "echo error: no", "error: no"), environment)
    with expected_failure(match="Expected"):
        run_python(page, Block("python", 1, ">>> 1 + 1\n3\n", None), {})
    with expected_failure(match="has no --no-such-flag"):
        run_command(
            page, Command(1, "uv run python -m bench table --no-such-flag", ""), environment
        )


def test_only_what_installs_stays_out() -> None:
    left_out = [(page, b) for page in PAGES for b in blocks_of(page) if b.not_run is not None]
    counted: dict[str, int] = {}
    for page, block in left_out:
        counted[name_of(page)] = counted.get(name_of(page), 0) + 1
        for command in commands_of(block):
            for part in command.text.partition("#")[0].split("&&"):
                program = part.split()[0]
                assert program in MAY_STAY_OUT, f"{name_of(page)}:{command.line} runs `{program}`"
    assert counted == NOT_RUN


def test_links_lead_somewhere() -> None:
    broken: list[str] = []
    found = 0
    for page in PAGES:
        text = re.sub(r"`[^`]*`", "``", prose_of(page))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"\w+:", target):
                continue
            found += 1
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            file = page if not path else (page.parent / path).resolve()
            if not file.exists() or (anchor and anchor not in anchors_of(file)):
                broken.append(f"{name_of(page)}: {target}")
    assert not broken
    assert found > 30


@functools.cache
def help_of(*command: str) -> str:
    ended = run_here(" ".join(["tokenmill", *command, "--help"]))
    assert ended is not None
    assert ended[0] == 0
    return ended[1]


def commands_in_help() -> set[str]:
    listed = help_of().partition("Commands:\n")[2]
    return set(re.findall(r"^  (\w+)", listed, flags=re.MULTILINE))


def test_pages_name_the_commands_there_are() -> None:
    named: dict[str, str] = {}
    for page in PAGES:
        spans = re.findall(r"`tokenmill ([a-z]+)\b", prose_of(page))
        for block in blocks_of(page):
            if block.language in SHELL:
                spans += re.findall(
                    r"(?:^|\$ |uv run |\| )tokenmill ([a-z]+)\b", block.text, re.MULTILINE
                )
        named |= dict.fromkeys(spans, name_of(page))
    assert len(commands_in_help()) >= 3
    assert set(named) == commands_in_help(), named


def test_pages_name_the_flags_there_are() -> None:
    text = "".join((REPOSITORY / name).read_text(encoding="utf-8") for name in PAGES_ABOUT_FLAGS)
    # The measured table names the flags of the command that measured it.
    text = re.sub(r"<!-- bench:start -->.*?<!-- bench:end -->", "", text, flags=re.DOTALL)
    named = set(FLAG.findall(text))
    commands = [(name,) for name in commands_in_help()] + [("report", name) for name in REPORTS]
    commands += [("lm", name) for name in LM]
    there_are = {flag for command in commands for flag in FLAG.findall(help_of(*command))}
    there_are |= set(FLAG.findall(help_of()))
    assert named - OF_OTHERS == there_are


def test_the_picture_of_imports_is_the_contract() -> None:
    """docs/architecture.md draws the rows of .importlinter."""
    contract = configparser.ConfigParser()
    contract.read(REPOSITORY / ".importlinter")
    layers = contract["importlinter:contract:rows"]["layers"].split("\n")
    rows = [
        {name.strip().removeprefix("tokenmill.") for name in row.split("|")}
        for row in layers
        if row
    ]
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    picture = page.partition("## Who imports whom")[2].partition("```text\n")[2].partition("```")[0]
    known = set().union(*rows)
    drawn = [set(re.split(r"\s{2,}", line)) & known for line in picture.splitlines()]
    assert len(rows) >= 5
    assert drawn == rows
