"""Datasets by name, from a Hub on this machine: which files, which splits, which rows."""

import gzip
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback import COMMIT, Fault, Hub, Server

from tokenmill.errors import ConfigError, SourceError
from tokenmill.pull.call import pull
from tokenmill.pull.catalogue import CATALOGUE
from tokenmill.pull.run import PullReport, prepare_pull
from tokenmill.storage.retries import Patience

QUICK = Patience(retries=3, first_seconds=0.001, most_seconds=0.01)


def parquet(columns: Mapping[str, Sequence[object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue()


def tree(folder: Path) -> dict[str, bytes]:
    """All visible files, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".pull" not in path.parts
    }


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "pull.json").read_bytes())


def run(name: str, folder: Path, **more: object) -> PullReport:
    return prepare_pull(name, folder, patience=QUICK, progress=False, **more).run()  # pyright: ignore


def shard(number: int) -> bytes:
    return parquet({"text": [f"document {index} of shard {number}" for index in range(20)]})


@pytest.fixture
def shards(hub: Hub) -> Hub:
    numbers = [*range(10), 1822]
    hub.add_dataset(
        "karpathy/fineweb-edu-100b-shuffle",
        {f"shard_{number:05}.parquet": shard(number) for number in numbers},
    )
    return hub


def test_shards_by_range_and_the_last_is_validation(shards: Hub, tmp_path: Path) -> None:
    report = run("fineweb-edu", tmp_path, shards="..2,5,-1")
    found = tree(tmp_path)
    assert sorted(found) == [
        "pull.json",
        "train/shard_00000.parquet",
        "train/shard_00001.parquet",
        "train/shard_00005.parquet",
        "validation/shard_01822.parquet",
    ]
    assert found["validation/shard_01822.parquet"] == shard(1822)
    assert (report.files, report.of_files, report.splits) == (
        4,
        1823,
        {"train": 3, "validation": 1},
    )
    (entry,) = manifest(tmp_path)["pulls"]
    assert entry["revision"] == COMMIT
    assert entry["licence"] == "ODC-By 1.0"
    assert entry["address"] == f"hf://datasets/karpathy/fineweb-edu-100b-shuffle@{COMMIT}"
    digest = hashlib.sha256(shard(5)).hexdigest()
    assert entry["files"]["train/shard_00005.parquet"]["sha256"] == digest
    assert entry["files"]["train/shard_00005.parquet"]["split"] == "train"


def test_without_a_choice_it_is_eight_shards(shards: Hub, tmp_path: Path) -> None:
    run("fineweb-edu", tmp_path)
    assert len(tree(tmp_path)) == 9
    assert "train/shard_00007.parquet" in tree(tmp_path)


def test_more_shards_add_up(shards: Hub, tmp_path: Path) -> None:
    run("fineweb-edu", tmp_path, shards="..2")
    shards.storage.bytes_sent.clear()
    report = run("fineweb-edu", tmp_path, shards="1..4")
    assert (report.fetched_files, report.kept_files) == (2, 1)
    assert len(shards.storage.bytes_sent) == 2
    assert len(manifest(tmp_path)["pulls"][0]["files"]) == 4


def test_a_shard_that_does_not_exist(shards: Hub, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"asks for 1823.*0–1822"):
        run("fineweb-edu", tmp_path, shards="1823")
    with pytest.raises(SourceError, match=r"shard_00010.parquet` does not exist"):
        run("fineweb-edu", tmp_path, shards="10")


def test_a_second_pull_fetches_nothing(shards: Hub, tmp_path: Path) -> None:
    run("fineweb-edu", tmp_path, shards="..4")
    before = tree(tmp_path)
    shards.storage.requests.clear()
    report = run("fineweb-edu", tmp_path, shards="..4")
    assert report.already_done
    assert shards.storage.requests == []
    assert tree(tmp_path) == before


def test_a_damaged_file_is_found_and_replaced(shards: Hub, tmp_path: Path) -> None:
    run("fineweb-edu", tmp_path, shards="..3")
    path = tmp_path / "train/shard_00001.parquet"
    # Another date: it is read again. The same date: only `verify` reads it.
    path.write_bytes(shard(1)[:-1] + b"X")
    report = run("fineweb-edu", tmp_path, shards="..3")
    assert (report.fetched_files, report.replaced_files) == (1, 1)
    assert path.read_bytes() == shard(1)

    import os

    before = path.stat()
    path.write_bytes(shard(1)[:-1] + b"X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run("fineweb-edu", tmp_path, shards="..3").already_done
    assert run("fineweb-edu", tmp_path, shards="..3", verify=True).replaced_files == 1
    assert path.read_bytes() == shard(1)


def test_a_file_from_elsewhere_is_checked_and_kept(shards: Hub, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train/shard_00000.parquet").write_bytes(shard(0))
    (tmp_path / "train/shard_00001.parquet").write_bytes(shard(1)[:100])
    report = run("fineweb-edu", tmp_path, shards="..2")
    assert (report.fetched_files, report.kept_files, report.replaced_files) == (1, 1, 1)
    assert (tmp_path / "train/shard_00001.parquet").read_bytes() == shard(1)


def test_same_length_corruption_never_gets_through(shards: Hub, tmp_path: Path) -> None:
    for number in range(3):
        name = f"karpathy/fineweb-edu-100b-shuffle/shard_{number:05}.parquet"
        shards.storage.fail(name, Fault(flip_at=50 + number))
    report = run("fineweb-edu", tmp_path, shards="..3")
    assert report.fetched_bytes == 2 * sum(len(shard(number)) for number in range(3))
    assert [tree(tmp_path)[f"train/shard_{n:05}.parquet"] for n in range(3)] == [
        shard(n) for n in range(3)
    ]


def test_the_token_goes_to_the_hub_alone(
    shards: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards.token = "hf_secret"
    with pytest.raises(SourceError, match="401") as raised:
        run("fineweb-edu", tmp_path, shards="0")
    assert "HF_TOKEN" in (raised.value.hint or "")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    run("fineweb-edu", tmp_path, shards="0")
    assert shards.storage.asked("GET")
    assert all("authorization" not in each.headers for each in shards.storage.requests)
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"hf_secret" not in everything


def test_a_mirror_by_base_url(server: Server, tmp_path: Path) -> None:
    for number in (0, 1822):
        server.add(f"mirror/shard_{number:05}.parquet", shard(number))
    run("fineweb-edu", tmp_path, shards="0,-1", base_url=f"{server.url}/mirror")
    assert tree(tmp_path)["train/shard_00000.parquet"] == shard(0)
    assert manifest(tmp_path)["pulls"][0]["address"] == f"{server.url}/mirror"


def test_a_hub_that_does_not_list(shards: Hub, tmp_path: Path) -> None:
    shards.has_api = False
    run("fineweb-edu", tmp_path, shards="..3")
    assert len(tree(tmp_path)) == 4
    name = "karpathy/fineweb-edu-100b-shuffle/shard_00000.parquet"
    # Its HEAD states the sha256 just as well.
    shards.storage.fail(name, Fault(flip_at=3))
    (tmp_path / "train/shard_00000.parquet").unlink()
    assert run("fineweb-edu", tmp_path, shards="0").fetched_bytes == 2 * len(shard(0))


def test_long_listings_come_in_pages(shards: Hub, tmp_path: Path) -> None:
    shards.page_entries = 3
    run("fineweb-edu", tmp_path, shards="..9")
    pages = [each for each in shards.requests if "/tree/" in each.path]
    assert len(pages) == 4


def test_fineweb_samples_are_listed(hub: Hub, tmp_path: Path) -> None:
    files = {f"sample/10BT/{number:03}_00000.parquet": shard(number) for number in range(3)}
    files["sample/100BT/000_00000.parquet"] = shard(9)
    hub.add_dataset("HuggingFaceFW/fineweb", files)
    run("fineweb", tmp_path / "small")
    assert sorted(tree(tmp_path / "small"))[1:] == [f"train/{n:03}_00000.parquet" for n in range(3)]
    run("fineweb", tmp_path / "some", shards="1..")
    assert sorted(tree(tmp_path / "some"))[1:] == [f"train/{n:03}_00000.parquet" for n in (1, 2)]
    run("fineweb", tmp_path / "large", config="sample-100BT")
    assert tree(tmp_path / "large")["train/000_00000.parquet"] == shard(9)


def test_tinystories_and_owt_keep_their_files(hub: Hub, tmp_path: Path) -> None:
    train, valid = b"once<|endoftext|>" * 50, b"upon<|endoftext|>" * 9
    hub.add_dataset(
        "roneneldan/TinyStories",
        {"TinyStoriesV2-GPT4-train.txt": train, "TinyStoriesV2-GPT4-valid.txt": valid},
    )
    run("tinystories", tmp_path / "stories")
    found = tree(tmp_path / "stories")
    assert found["train/TinyStoriesV2-GPT4-train.txt"] == train
    assert found["validation/TinyStoriesV2-GPT4-valid.txt"] == valid
    packed = gzip.compress(b"web text")
    hub.add_dataset(
        "stanford-cs336/owt-sample", {"owt_train.txt.gz": packed, "owt_valid.txt.gz": packed}
    )
    run("owt-sample", tmp_path / "owt")
    assert tree(tmp_path / "owt")["train/owt_train.txt.gz"] == packed


def test_every_dataset_of_the_catalogue_can_be_planned(hub: Hub, tmp_path: Path) -> None:
    from tokenmill.pull.catalogue import FixedFiles, NumberedShards

    for dataset in CATALOGUE:
        for config in dataset.configs or ("",):
            files = dataset.files_of(config)
            if isinstance(files, FixedFiles):
                paths = [path for each in files.paths.values() for path in each]
            elif isinstance(files, NumberedShards):
                paths = [files.pattern.format(number) for number in range(8)]
            else:
                paths = [files.pattern.replace("*", "000_00000")]
            hub.add_dataset(dataset.repository, dict.fromkeys(paths, b"x" * 100))
            planned = prepare_pull(
                dataset.name, tmp_path / dataset.name, config=config or None, patience=QUICK
            ).plan()
            assert len(planned) == len(paths)
            assert all(item.state is not None and item.state.size == 100 for item in planned)
            assert {item.split for item in planned} <= {"train", "validation", "test"}


WIKI_LINES = [
    "",
    " = First article = \n",
    "",
    " Some words , 1 @.@ 5 of them . \n",
    "",
    " = = A heading = = \n",
    "",
    " More words . \n",
    " = Second one = \n",
    " Its text . \n",
]
WIKI_ARTICLES = [
    "= First article =\nSome words , 1 @.@ 5 of them .\n= = A heading = =\nMore words .",
    "= Second one =\nIts text .",
]


def test_wikitext_lines_become_articles(hub: Hub, tmp_path: Path) -> None:
    lines = parquet({"text": WIKI_LINES})
    second = parquet({"text": ["", " still the second . \n", " = Third = \n", "\n"]})
    hub.add_dataset(
        "Salesforce/wikitext",
        {
            "wikitext-103-raw-v1/train-00000-of-00002.parquet": lines,
            "wikitext-103-raw-v1/train-00001-of-00002.parquet": second,
            "wikitext-103-raw-v1/validation-00000-of-00001.parquet": lines,
            "wikitext-103-raw-v1/test-00000-of-00001.parquet": lines,
        },
    )
    report = run("wikitext", tmp_path)
    assert sorted(tree(tmp_path)) == [
        "pull.json",
        "test/wikitext.jsonl",
        "train/wikitext.jsonl",
        "validation/wikitext.jsonl",
    ]
    assert [row["text"] for row in rows(tmp_path / "test/wikitext.jsonl")] == WIKI_ARTICLES
    train = [row["text"] for row in rows(tmp_path / "train/wikitext.jsonl")]
    assert train == [WIKI_ARTICLES[0], f"{WIKI_ARTICLES[1]}\nstill the second .", "= Third ="]
    assert report.rows == {
        "test/wikitext.jsonl": 2,
        "train/wikitext.jsonl": 3,
        "validation/wikitext.jsonl": 2,
    }
    (entry,) = manifest(tmp_path)["pulls"]
    assert len(entry["sources"]) == 4
    assert entry["files"]["train/wikitext.jsonl"]["rows"] == 3
    assert not (tmp_path / ".pull/files").exists()


def alpaca(number: int) -> bytes:
    examples = [
        {"instruction": f"do {index}", "input": "" if index % 2 else "é", "output": f"done {index}"}
        for index in range(number)
    ]
    return json.dumps([*examples, {"instruction": "no answer"}]).encode()


def test_alpaca_is_split_by_seed(hub: Hub, tmp_path: Path) -> None:
    hub.add_dataset("yahma/alpaca-cleaned", {"alpaca_data_cleaned.json": alpaca(9_000)})
    report = run("alpaca", tmp_path / "a")
    assert report.rows == {
        "test/alpaca.jsonl": 2_000,
        "train/alpaca.jsonl": 5_000,
        "validation/alpaca.jsonl": 2_000,
    }
    assert report.skipped == {"rows without an instruction, input and output": 1}
    run("alpaca", tmp_path / "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    run("alpaca", tmp_path / "c", seed=7)
    assert tree(tmp_path / "a")["test/alpaca.jsonl"] != tree(tmp_path / "c")["test/alpaca.jsonl"]
    every = [row for path in (tmp_path / "a").glob("*/alpaca.jsonl") for row in rows(path)]
    assert sorted(row["instruction"] for row in every) == sorted(f"do {n}" for n in range(9_000))
    first = rows(tmp_path / "a/validation/alpaca.jsonl")[0]
    assert set(first) == {"instruction", "input", "output"}


def test_made_rows_are_not_made_again(hub: Hub, tmp_path: Path) -> None:
    hub.add_dataset("yahma/alpaca-cleaned", {"alpaca_data_cleaned.json": alpaca(100)})
    run("alpaca", tmp_path)
    hub.storage.requests.clear()
    before = (tmp_path / "train/alpaca.jsonl").stat().st_mtime_ns
    assert run("alpaca", tmp_path).already_done
    assert run("alpaca", tmp_path, verify=True).already_done
    assert hub.storage.requests == []
    assert (tmp_path / "train/alpaca.jsonl").stat().st_mtime_ns == before
    (tmp_path / "train/alpaca.jsonl").write_bytes(b"{}\n")
    assert not run("alpaca", tmp_path).already_done
    assert len(rows(tmp_path / "train/alpaca.jsonl")) == 50
    # Another version on the server is noticed too.
    hub.add_dataset("yahma/alpaca-cleaned", {"alpaca_data_cleaned.json": alpaca(200)})
    assert run("alpaca", tmp_path).rows["train/alpaca.jsonl"] == 100


def post(
    ident: str, parent: str | None, role: str, text: str, rank: float | None = None
) -> dict[str, object]:
    keys = ("message_id", "parent_id", "role", "text", "rank")
    return dict(zip(keys, (ident, parent, role, text, rank), strict=True))


OASST = [
    post("q", None, "prompter", "question"),
    post("b", "q", "assistant", "second best", 1.0),
    post("a", "q", "assistant", "best", 0.0),
    post("c", "q", "assistant", "worst", 2.0),
    post("d", "q", "assistant", "unranked"),
    post("q2", "a", "prompter", "thanks"),
    post("a2", "q2", "assistant", "welcome"),
    post("q3", "a2", "prompter", "nobody answers"),
    post("lost", "gone", "assistant", "whose parent is missing", 0.0),
]


def oasst(posts: Sequence[Mapping[str, object]]) -> bytes:
    return parquet({key: [row[key] for row in posts] for key in OASST[0]})


def test_oasst1_trees_become_pairs_or_conversations(hub: Hub, tmp_path: Path) -> None:
    many = [{**each, "message_id": f"{n}"} for n in range(8) for each in OASST[:1]]
    hub.add_dataset(
        "OpenAssistant/oasst1",
        {
            "data/train-00000-of-00001-b42a775f407cee45.parquet": oasst([*OASST, *many]),
            "data/validation-00000-of-00001-134b8fd0c89408b6.parquet": oasst(OASST),
        },
    )
    report = run("oasst1", tmp_path / "pairs")
    pairs = rows(tmp_path / "pairs/validation/oasst1.jsonl")
    texts = [(each["chosen"][0]["content"], each["rejected"][0]["content"]) for each in pairs]
    assert texts == [("best", "second best"), ("best", "worst"), ("second best", "worst")]
    assert pairs[0]["prompt"] == [{"role": "user", "content": "question"}]
    assert pairs[0]["chosen"] == [{"role": "assistant", "content": "best"}]
    assert report.skipped == {"messages whose parent is missing": 2}
    run("oasst1", tmp_path / "talk", config="messages")
    (talk,) = rows(tmp_path / "talk/validation/oasst1.jsonl")
    assert [each["content"] for each in talk["messages"]] == [
        "question",
        "best",
        "thanks",
        "welcome",
    ]
    assert [each["role"] for each in talk["messages"]] == ["user", "assistant"] * 2


def test_ultrafeedback_becomes_prompt_chosen_rejected(hub: Hub, tmp_path: Path) -> None:
    def talk(*texts: str) -> list[dict[str, str]]:
        roles = ("user", "assistant")
        return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]

    train = parquet(
        {
            "chosen": [talk("q", "good"), talk("q", "same"), talk("a", "b", "c", "d")],
            "rejected": [talk("q", "bad"), talk("q", "same"), talk("a", "b", "c", "e")],
        }
    )
    hub.add_dataset(
        "HuggingFaceH4/ultrafeedback_binarized",
        {
            "data/train_prefs-00000-of-00001.parquet": train,
            "data/test_prefs-00000-of-00001.parquet": train,
        },
    )
    report = run("ultrafeedback", tmp_path)
    first, second = rows(tmp_path / "train/ultrafeedback.jsonl")
    assert first == {
        "prompt": [{"role": "user", "content": "q"}],
        "chosen": [{"role": "assistant", "content": "good"}],
        "rejected": [{"role": "assistant", "content": "bad"}],
    }
    assert len(second["prompt"]) == 3
    assert report.skipped == {"rows without two different answers to one prompt": 2}


def test_unknown_names_get_the_list_and_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        pull("tinystorys", tmp_path)
    assert all(f"`{dataset.name}`" in raised.value.message for dataset in CATALOGUE)
    assert raised.value.hint == "did you mean `tinystories`?"
    with pytest.raises(ConfigError, match="unknown config of `wikitext` `wikitext-3`"):
        pull("wikitext", tmp_path, config="wikitext-3")
    with pytest.raises(ConfigError, match="no configs"):
        pull("tinystories", tmp_path, config="x")
    with pytest.raises(ConfigError, match="no numbered shards"):
        pull("tinystories", tmp_path, shards="..2", base_url="http://127.0.0.1:9")


def test_one_folder_holds_one_dataset(shards: Hub, tmp_path: Path) -> None:
    run("fineweb-edu", tmp_path, shards="0")
    shards.add_dataset("karpathy/climbmix-400b-shuffle", {"shard_00000.parquet": shard(77)})
    with pytest.raises(ConfigError, match=r"holds `fineweb-edu`.*`climbmix`"):
        run("climbmix", tmp_path, shards="0")
    assert tree(tmp_path)["train/shard_00000.parquet"] == shard(0)


def test_pulled_rows_are_what_encode_reads(hub: Hub, tmp_path: Path) -> None:
    """Instructions as mode `sft`, pairs as mode `preference`, each from a pulled folder with its splits."""
    import tokenmill as tm

    tokenizer = tm.train(tm.documents(["question best worst do done"]), vocab_size=300)
    hub.add_dataset("yahma/alpaca-cleaned", {"alpaca_data_cleaned.json": alpaca(40)})
    posts = [
        {**each, "message_id": f"{n}{each['message_id']}"} for n in range(8) for each in OASST[:4]
    ]
    posts = [
        {**each, "parent_id": f"{index // 4}q" if each["parent_id"] else None}
        for index, each in enumerate(posts)
    ]
    hub.add_dataset(
        "OpenAssistant/oasst1",
        {
            "data/train-00000-of-00001-b42a775f407cee45.parquet": oasst(posts),
            "data/validation-00000-of-00001-134b8fd0c89408b6.parquet": oasst(OASST),
        },
    )
    run("alpaca", tmp_path / "alpaca")
    tuned = tm.encode_dataset(
        tmp_path / "alpaca", tokenizer, tmp_path / "sft", mode="sft", progress=False
    )
    assert {name: len(tuned[name]) for name in tuned.splits} == {
        "train": 20,
        "validation": 10,
        "test": 10,
    }
    run("oasst1", tmp_path / "oasst1")
    pairs = tm.encode_dataset(
        tmp_path / "oasst1", tokenizer, tmp_path / "pairs", mode="preference", progress=False
    )
    # Three ordered pairs in a tree, two documents for each; a quarter of eight trees is for testing.
    assert {name: len(pairs[name]) for name in pairs.splits} == {
        "train": 36,
        "validation": 6,
        "test": 12,
    }
