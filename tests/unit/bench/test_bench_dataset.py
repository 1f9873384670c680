"""`bench dataset`: the command on a small text, and that what it makes and compares is what it says."""

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from bench.cases import load_cases
from bench.commands.dataset import require_same
from bench.conversations import MARKUP, read_contents, write_conversations
from bench.corpora import Corpus
from bench.documents import cut_in_parts, stream_documents, write_documents
from bench.job import BenchError, Job
from bench.machine import REPOSITORY, file_system_of
from bench.repeated import repeat_corpus
from bench.rounds import Entrant, Track, run_once
from bench.stages import encode_dataset, encode_memory, open_dataset, transformers_chats
from bench.stages.chat_answer import NO_MASK, chats_answer
from bench.stages.parquet_shards import write_shards
from bench.stages.sparse_dataset import read_chosen, write_chosen, write_sparse
from bench.vocabularies import Vocabulary, train_vocabulary

CASES = load_cases()
SEPARATOR = CASES.separator
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}<|assistant|>"
    "{% generation %}{{ message['content'] }}<|end|>{% endgeneration %}"
    "{% else %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endif %}{% endfor %}"
)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "dataset", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def many_documents(folder: Path) -> Path:
    path = folder / "many.txt"
    text = "low lower lowest, the newest and the widest; aaaa 1234 don't\n\n  été 漢字かな\n"
    documents = (f"{number} {text * (3 + number % 3)}" for number in range(60))
    path.write_text(SEPARATOR.join(documents), encoding="utf-8")
    return path


def corpus(folder: Path) -> Corpus:
    path = many_documents(folder)
    return Corpus("many", path, path.stat().st_size)


def vocabulary(folder: Path, *special_tokens: str) -> Vocabulary:
    return train_vocabulary(
        corpus(folder),
        folder / "vocab",
        vocab_size=300,
        pattern="gpt4",
        special_tokens=[SEPARATOR, *special_tokens],
    )


def test_text_parquet_and_conversations_are_stored_as_printed(tmp_path: Path) -> None:
    sizes = ["--text-bytes", "100000", "--content-bytes", "50000"]
    options = [*sizes, "--vocab-size", "300", "--runs", "1", "--json"]
    cases = ["--cases", "text,parquet,sft", "--peers", "tiktoken"]
    places = ["--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    done = bench(str(many_documents(tmp_path)), *options, *cases, *places)
    assert done.returncode == 0, done.stderr
    text, parquet, sft = records = json.loads(done.stdout)
    assert [entrant["name"] for entrant in text["entrants"]] == [
        *("tokenmill", "tokenmill, in memory", "tiktoken", "write and fsync alone")
    ]
    answers = {entrant["answer"] for entrant in text["entrants"][:3]}
    assert len(answers) == 1
    assert answers.pop().startswith("same, ")
    assert all(entrant["peak_bytes"] > 10_000_000 for entrant in text["entrants"])
    assert [number["wanted"] for number in text["numbers"]] == ["≥ 0.7×", "≥ 15×"]
    assert all(number["measured"] for number in text["numbers"])
    assert parquet["entrants"][2]["answer"] == f"same, {text['corpus']['bytes']:,} bytes"
    assert parquet["shards"] == 1
    assert [number["wanted"] for number in parquet["numbers"]] == ["≥ 0.7×"]
    assert [number["wanted"] for number in sft["numbers"]] == ["≥ 0.5×"]
    assert sft["entrants"][0]["answer"].startswith("same, ")
    assert str(tmp_path) not in done.stdout
    (stored,) = (tmp_path / "results").glob("*.json")
    kept = json.loads(stored.read_text(encoding="utf-8"))["records"]
    assert {record["case"] for record in kept} == {record["case"] for record in records}
    assert not list(tmp_path.glob("tokenmill-bench-*"))


def test_memory_and_opening_need_no_peer(tmp_path: Path) -> None:
    options = ["--vocab-size", "300", "--quick", "--cases", "memory,open", "--documents", "5"]
    places = ["--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    done = bench(str(many_documents(tmp_path)), *options, *places)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum("peak memory" in line for line in lines) == 2
    assert sum("memory grows by" in line for line in lines) == 2
    assert done.stdout.count("5 documents, each as written") == 2
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.txt", "--cases", "train"], 2, "train"),
        (["missing.txt", "--stream-gb", "1,x"], 2, "1,x"),
        (["missing.txt", "--peers", "gigatoken"], 2, "gigatoken"),
    ],
)
def test_misuse_is_told(arguments: list[str], code: int, message: str) -> None:
    done = bench(*arguments)
    assert done.returncode == code
    assert message in done.stderr


def test_the_parts_of_a_file_hold_its_documents(tmp_path: Path) -> None:
    path = many_documents(tmp_path)
    whole = list(stream_documents(path, SEPARATOR))
    for parts in (1, 2, 3, 7, 200):
        cut = cut_in_parts(path, SEPARATOR, parts)
        assert len(cut) == parts
        found = [
            document
            for start, stop in cut
            for document in stream_documents(
                path, SEPARATOR, block_bytes=50, start=start, stop=stop
            )
        ]
        assert found == whole
    sizes = [stop - start for start, stop in cut_in_parts(path, SEPARATOR, 2)]
    assert max(sizes) - min(sizes) < 2 * max(len(text.encode()) for text in whole)


def test_a_repeated_corpus_has_every_document_in_every_round(tmp_path: Path) -> None:
    short = corpus(tmp_path)
    documents = list(stream_documents(short.path, SEPARATOR))
    num_bytes = 2 * sum(len(text.encode()) for text in documents)
    longer, again, other = (
        repeat_corpus(
            short, tmp_path / f"{name}.txt", separator=SEPARATOR, num_bytes=num_bytes, seed=seed
        )
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert longer.num_bytes == num_bytes
    assert longer.path.read_bytes() == again.path.read_bytes() != other.path.read_bytes()
    found = list(stream_documents(longer.path, SEPARATOR))
    first, second = found[: len(documents)], found[len(documents) :]
    assert sorted(first) == sorted(second) == sorted(documents)
    assert first != second


def test_shards_are_as_nanochat_packs_them(tmp_path: Path) -> None:
    documents = [f"document {number} " * (number % 5) for number in range(1, 30)]
    about = replace(CASES.dataset_parquet, shard_chars=600, rows_per_group=8)
    num_shards = write_shards(documents, tmp_path / "shards", about)
    paths = sorted((tmp_path / "shards").iterdir())
    assert [path.name for path in paths] == [
        f"shard_{number:05}.parquet" for number in range(num_shards)
    ]
    tables = [pyarrow.parquet.read_table(path) for path in paths]
    assert [text for table in tables for text in table["text"].to_pylist()] == documents
    metadata = pyarrow.parquet.read_metadata(paths[0])
    assert metadata.row_group(0).num_rows == 8
    column = metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert not column.is_stats_set


def test_conversations_take_turns_and_hold_no_markup(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    texts = ["\n\n".join(f"paragraph {i} of {n}" for i in range(9)) for n in range(8)]
    write_documents(path, [*texts, "a <|user|> b\n\nc\n\n<|end|>"], SEPARATOR)
    made = [
        write_conversations(
            Corpus("text", path, 0), out, separator=SEPARATOR, num_bytes=3000, seed=seed
        )
        for out, seed in ((tmp_path / "a", 1), (tmp_path / "b", 1), (tmp_path / "c", 2))
    ]
    assert made[0].path.read_bytes() == made[1].path.read_bytes() != made[2].path.read_bytes()
    contents = read_contents(made[0].path)
    # More than one round of them.
    assert sum(len(content.encode()) for content in contents) == made[0].num_bytes >= 3000
    assert not any(MARKUP in content for content in contents)
    for line in made[0].path.read_text(encoding="utf-8").splitlines():
        roles = [message["role"] for message in json.loads(line)["messages"]]
        turns = roles[1:] if roles[0] == "system" else roles
        assert turns == ["user", "assistant"] * (len(turns) // 2) != []


def test_ids_on_disk_and_in_memory_are_the_same_answer(tmp_path: Path) -> None:
    vocab = vocabulary(tmp_path)
    job = Job(
        "",
        str(tmp_path / "many.txt"),
        threads=2,
        vocab_size=vocab.size,
        tokenizer=str(vocab.folder),
        out=str(tmp_path),
    )
    on_disk = encode_dataset.answer(encode_dataset.run(encode_dataset.load(job), job))
    in_memory = encode_memory.answer(encode_memory.run(encode_memory.load(job), job))
    assert on_disk[:2] == in_memory
    documents = list(stream_documents(job.path, SEPARATOR))
    assert int(on_disk[2][0]) == sum(len(text.encode()) for text in documents)
    ids = [[*vocab.tokenizer.encode_ordinary(text), 299] for text in documents]
    assert int(in_memory[1][0]) == sum(map(len, ids))
    assert not list(tmp_path.glob("tmp*"))


def test_another_answer_stops_the_command() -> None:
    track = Track(Entrant("tiktoken", Job("", "", 2)))
    require_same(track, [(b"x",), (b"3",)], [(b"x",), (b"3",)])
    with pytest.raises(BenchError, match="tiktoken gave another answer"):
        require_same(track, [(b"x",), (b"3",)], [(b"y",), (b"3",)])
    track.failure = "failed: no room"
    require_same(track, [(b"x",)], [])


def test_a_dataset_of_holes_opens_and_has_the_chosen_documents(tmp_path: Path) -> None:
    vocab = vocabulary(tmp_path)
    folder = tmp_path / "sparse"
    chosen = write_sparse(
        folder,
        vocab.tokenizer,
        num_tokens=50_000_000,
        tokens_each=1000,
        num_shards=4,
        num_chosen=10,
        seed=1,
    )
    tokens = sorted((folder / "train").glob("tokens-*.npy"))
    assert sum(path.stat().st_size for path in tokens) > 90_000_000
    assert sum(path.stat().st_blocks for path in tokens) * 512 < 10_000_000
    write_chosen(tmp_path / "chosen.json", chosen)
    assert read_chosen(tmp_path / "chosen.json") == chosen
    job = Job("", str(folder), 1, warm_path=str(tmp_path / "chosen.json"))
    reading = open_dataset.run(open_dataset.load(job), job)
    assert open_dataset.answer(reading) == open_dataset.right_answer(chosen)
    measured = open_dataset.extra(reading)
    assert 0 < measured["median_seconds"] <= measured["worst_seconds"]
    assert len({each.index for each in chosen}) == len(chosen) >= 8


def chats(folder: Path) -> list[list[dict[str, str]]]:
    """More rows than one batch, so that two processes both have some."""
    chance = random.Random(1)
    words = ["low", " lower", " 漢字", "\n", " it's", " 12", "{{ x }}"]

    def turn(role: str) -> dict[str, str]:
        return {"role": role, "content": "".join(chance.choices(words, k=chance.randint(1, 9)))}

    number = transformers_chats.BATCH_ROWS * 5 // 2
    rows = [[turn("user"), turn("assistant")] * chance.randint(1, 2) for _ in range(number)]
    lines = (json.dumps({"messages": row}) + "\n" for row in rows)
    (folder / "chats.jsonl").write_text("".join(lines), encoding="utf-8")
    return rows


def by_hand(rows: list[list[dict[str, str]]], vocab: Vocabulary) -> tuple[Any, Any, Any]:
    special, encode = vocab.tokenizer.special_tokens, vocab.tokenizer.encode_ordinary
    ids: list[int] = []
    mask: list[int] = []
    ends: list[int] = []
    for row in rows:
        for message in row:
            said = [*encode(message["content"]), special["<|end|>"]]
            ids += [special[f"<|{message['role']}|>"], *said]
            mask += [0, *[int(message["role"] == "assistant")] * len(said)]
        ends.append(len(ids))
    return np.array(ids), np.array(ends), np.array(mask)


def test_every_form_of_transformers_gives_the_ids_of_the_template(tmp_path: Path) -> None:
    vocab = vocabulary(tmp_path, "<|user|>", "<|assistant|>", "<|end|>")
    (vocab.folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    right = chats_answer(*by_hand(chats(tmp_path), vocab))
    job = Job(
        transformers_chats.PROGRAM,
        str(tmp_path / "chats.jsonl"),
        threads=2,
        vocab_size=vocab.size,
        tokenizer=str(vocab.folder),
    )
    for form in (*transformers_chats.TIMED_FORMS, transformers_chats.MASK):
        entrant = Entrant("transformers", replace(job, form=form))
        outcome, answer = run_once(entrant, 60, with_answer=True)
        assert answer[:2] == right[:2], form
        assert answer[2:] == (right[2:] if form == transformers_chats.MASK else [(NO_MASK,)])
        assert outcome.peak_bytes > 10_000_000


def test_the_kind_of_a_file_system_is_told() -> None:
    assert file_system_of(Path("/proc/self")) in ("proc", "unknown")
