"""The adapters of libraries that encode: one answer from all of them, and a different answer is seen."""

from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from bench.commands.encode_equality import Agreement, compare_documents, explain
from bench.encoders import ENCODERS, compat_tiktoken, compat_tokenizers, tokenmill
from bench.encoders.encoder import ids_answer, read_ids, rows_of, texts_answer, write_ids
from bench.job import BenchError, Job
from bench.stages import decode_ids, encode_calls, encode_texts, load_vocab
from bench.vocabularies import REAL, given_rank_files, installed_rank_files, read_vocabulary

import tokenmill as tm

SEPARATOR = "<|endoftext|>"
TEXTS = ["low lower lowest", "the newest", "été 漢字かな don't\n\n  1234", "  "] * 3
PROGRAMS = {
    **{name: library.program for name, library in ENCODERS.items()},
    "tokenmill": tokenmill.PROGRAM,
    "compat tiktoken": compat_tiktoken.PROGRAM,
    "compat tokenizers": compat_tokenizers.PROGRAM,
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("encoders")
    text = folder / "text.txt"
    text.write_text(SEPARATOR.join(TEXTS), encoding="utf-8")
    tokenizer = tm.train(str(text), vocab_size=300, special_tokens=[SEPARATOR])
    tokenizer.save(folder / "tok")
    batch = tokenizer.encode_batch(TEXTS)
    ids, offsets = array("I", batch.ids.tolist()), array("q", batch.offsets.tolist())
    write_ids(folder / "ids", ids, offsets)
    return Job("", str(text), threads=1, tokenizer=str(folder / "tok"), separator=SEPARATOR)


def answer_of(program, job: Job) -> list[tuple[bytes, ...]]:
    return program.answer(program.run(program.load(job), job))


@pytest.mark.parametrize("form", ["", "lists"])
@pytest.mark.parametrize("shape", ["batch", "text"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_library_gives_the_same_ids(job: Job, name: str, shape: str, form: str) -> None:
    tokenizer = tm.Tokenizer.load(job.tokenizer)
    texts = ["\n".join(TEXTS)] if shape == "text" else TEXTS
    right = ids_answer([tokenizer.encode_ordinary(text) for text in texts])
    asked = replace(job, encoder=PROGRAMS[name], shape=shape, form=form)
    assert answer_of(encode_texts, asked) == right
    assert answer_of(encode_texts, replace(asked, warm_path=job.path)) == right


@pytest.mark.parametrize("form", ["", "lists"])
@pytest.mark.parametrize("shape", ["batch", "text"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_library_gives_the_text_back(job: Job, name: str, shape: str, form: str) -> None:
    ids = str(Path(job.path).parent / "ids")
    asked = replace(job, path=ids, encoder=PROGRAMS[name], shape=shape, form=form)
    right = texts_answer(["".join(TEXTS)] if shape == "text" else TEXTS)
    assert answer_of(decode_ids, asked) == right


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_library_answers_calls_and_loads(job: Job, name: str) -> None:
    tokenizer = tm.Tokenizer.load(job.tokenizer)
    asked = replace(job, encoder=PROGRAMS[name], warm_path=job.path)
    assert answer_of(encode_calls, asked) == ids_answer(map(tokenizer.encode, TEXTS))
    first = Path(job.path).parent / "first.txt"
    first.write_text(TEXTS[2], encoding="utf-8")
    right = ids_answer([tokenizer.encode(TEXTS[2])])
    assert answer_of(load_vocab, replace(asked, path=str(first))) == right
    with_import = replace(asked, path=str(first), form=load_vocab.WITH_IMPORT)
    assert answer_of(load_vocab, with_import) == right


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "gigatoken"])
def test_special_tokens_in_a_document_are_text(job: Job, name: str, tmp_path: Path) -> None:
    """gigatoken cannot read them as text."""
    text = tmp_path / "text.txt"
    text.write_text(f"low {SEPARATOR} lower", encoding="utf-8")
    tokenizer = tm.Tokenizer.load(job.tokenizer)
    right = ids_answer([tokenizer.encode_ordinary(f"low {SEPARATOR} lower")])
    asked = replace(job, path=str(text), separator="|||", encoder=PROGRAMS[name])
    assert answer_of(encode_texts, asked) == right


def test_offsets_are_compared_too(job: Job) -> None:
    forms = {
        name: answer_of(encode_texts, replace(job, encoder=PROGRAMS[name], form="offsets"))
        for name in ("tokenizers", "compat tokenizers")
    }
    assert forms["tokenizers"] == forms["compat tokenizers"]
    plain = answer_of(encode_texts, replace(job, encoder=PROGRAMS["tokenizers"]))
    assert int(forms["tokenizers"][1][0]) == 3 * int(plain[1][0])


def test_answers_tell_where_texts_end() -> None:
    assert ids_answer([[1, 2], [3]]) == ids_answer(([1, 2], array("H", [3])))
    assert ids_answer([[1, 2], [3]])[1] == (b"3",)
    assert ids_answer([[1, 2], [3]]) != ids_answer([[1], [2, 3]])
    assert texts_answer(["ab", "c"]) != texts_answer(["a", "bc"])
    assert texts_answer(["é"])[1] == (b"2",)


def test_ids_survive_their_files(tmp_path: Path) -> None:
    ids, offsets = array("I", [7, 2**32 - 1, 9]), array("q", [0, 0, 2, 3])
    write_ids(tmp_path / "ids", ids, offsets)
    assert read_ids(tmp_path / "ids") == (ids, offsets)
    assert rows_of(ids, offsets) == [[], [7, 2**32 - 1], [9]]


def test_the_first_difference_is_named() -> None:
    agreement = Agreement("some text")
    documents = ["a", "bb", "ccc"]
    ours = {"a": [1], "bb": [2, 2], "ccc": [3, 3, 3]}
    theirs = ours | {"ccc": [3, 4, 3, 3]}
    compare_documents(
        documents,
        lambda texts: [ours[t] for t in texts],
        lambda texts: [theirs[t] for t in texts],
        agreement,
    )
    assert agreement.documents == 2
    assert "document 2 (3 characters, starts 'ccc') differs at token 1" in agreement.line
    assert "peer:      [4, 3, 3] of 4" in agreement.line
    assert "differs at token 1\n" in explain(0, "x", [5], [5, 6])


def test_rank_files_are_given_by_known_names(tmp_path: Path) -> None:
    file = tmp_path / "some.tiktoken"
    file.write_bytes(b"")
    assert given_rank_files([f"cl100k={file}"]) == {"cl100k": file}
    for wrong in ("cl100k", f"gpt9={file}"):
        with pytest.raises(BenchError, match="NAME=FILE"):
            given_rank_files([wrong])
    with pytest.raises(BenchError, match="is not a file"):
        given_rank_files([f"llama3={tmp_path / 'missing'}"])
    assert set(installed_rank_files()) <= set(REAL)


def test_a_rank_file_becomes_a_folder_that_all_open(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where ids are left out between ranks and special tokens, as in the real one."""
    ranks = Path(job.tokenizer) / "ranks.tiktoken"
    size = len(ranks.read_bytes().splitlines())
    small = replace(REAL["cl100k"], special_tokens={"<|endoftext|>": size + 1})
    monkeypatch.setitem(REAL, "cl100k", small)
    vocabulary = read_vocabulary("cl100k", ranks, tmp_path / "tok")
    assert vocabulary.pattern == "cl100k"
    assert vocabulary.size == size + 2
    right = ids_answer(map(vocabulary.tokenizer.encode, TEXTS))
    for name in ("tiktoken", "tokenizers"):
        asked = replace(job, encoder=PROGRAMS[name], tokenizer=str(vocabulary.folder))
        assert answer_of(encode_texts, asked) == right
