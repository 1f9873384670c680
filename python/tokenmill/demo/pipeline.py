# pyright: basic
"""The parts of the demo, in order: each makes files below the demo's folder and says what came out.

Everything is done through the functions that users have: what the demo does, they can do.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenmill.dataset.encode import encode_dataset
from tokenmill.demo import settings as sizes
from tokenmill.demo.journal import Journal
from tokenmill.demo.settings import DemoSettings
from tokenmill.lm import small_world, small_world_questions
from tokenmill.sources.options import ReadOptions
from tokenmill.storage.files import open_atomically
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.train.merges import train

EOS = "<|endoftext|>"
STORY_PROMPT = "One day, Mia"
STORY_TOKENS = 110
SHOWN = 4
"""Questions whose answers the report shows."""


class Demo:
    """A demo in a folder; `says` hears a label and a sentence for each part."""

    def __init__(
        self,
        folder: Path,
        settings: DemoSettings,
        *,
        says: Callable[[str, str, float], None],
        progress: bool | None = None,
    ) -> None:
        self.folder, self.settings, self.progress = folder, settings, progress
        self.journal = Journal(folder, settings)
        folder.mkdir(parents=True, exist_ok=True)
        self._says = says

    def _do(self, name: str, label: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        is_done = name in self.journal.parts
        found = self.journal.do(name, work)
        self._says(label, found["said"] + (" (done before)" if is_done else ""), found["seconds"])
        return found

    def make_tokenizer(self) -> None:
        """Text, tokenizer, ids: the half that needs no torch."""
        self._do("text", "wrote", self._write_text)
        self._do("tokenizer", "trained", self._train_tokenizer)
        self._do("stories", "encoded", self._encode_stories)

    def make_assistant(self) -> None:
        """Three models, each from the one before, measured."""
        self._do("pretrain", "pretrain", self._pretrain)
        self._do("pretrain-measured", "", self._measure_base)
        self._do("sft", "sft", self._sft)
        self._do("sft-measured", "", lambda: self._measure_assistant("sft"))
        self._do("dpo", "dpo", self._dpo)
        self._do("dpo-measured", "", lambda: self._measure_assistant("dpo"))
        self._do("export", "exported", self._export)

    # Text

    @property
    def texts(self) -> Path:
        return self.folder / "text"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.folder / "tokenizer")

    def _write_text(self) -> dict[str, Any]:
        s = self.settings
        self.texts.mkdir(exist_ok=True)
        stories = self.texts / "stories"
        stories.mkdir(exist_ok=True)
        separator = str(ReadOptions.separator)
        _write(stories / "train.txt", small_world.stories(s.seed, s.stories), separator)
        held_back = small_world.stories(s.seed, s.validation_stories, s.test_start)
        _write(stories / "validation.txt", held_back, separator)
        rows = {
            "conversations": small_world_questions.sft_rows(s.seed, s.conversations),
            "pairs": small_world_questions.preference_rows(s.seed, s.pairs, s.test_start // 2),
            "questions": small_world_questions.question_rows(s.seed, s.questions, s.test_start),
            "test-pairs": small_world_questions.preference_rows(
                s.seed, s.questions, s.test_start, held_out=True
            ),
        }
        for name, each in rows.items():
            _write(self.texts / f"{name}.jsonl", map(small_world_questions.as_line, each))
        said = f"{s.stories:,} stories, {s.conversations:,} conversations, {s.pairs:,} pairs of answers"
        return {"said": said, "bytes": (stories / "train.txt").stat().st_size}

    def _train_tokenizer(self) -> dict[str, Any]:
        found = train(
            str(self.texts / "stories" / "train.txt"),
            vocab_size=self.settings.vocab_size,
            special_tokens=[EOS],
            progress=self.progress,
        )
        found.save(self.folder / "tokenizer")
        return {
            "said": f"a tokenizer: a vocab of {found.vocab_size:,} from {len(found.merges):,} merges",
            "vocab_size": found.vocab_size,
            "sha256": found.sha256,
        }

    def _encode_stories(self) -> dict[str, Any]:
        found = encode_dataset(
            str(self.texts / "stories"),
            self.tokenizer,
            self.folder / "data" / "stories",
            eos=EOS,
            progress=self.progress,
        )
        split = found.splits["train"]
        per_token = (split.num_bytes or 0) / split.num_tokens
        return {
            "said": f"{split.num_tokens:,} tokens, {per_token:.2f} bytes each",
            "tokens": split.num_tokens,
            "bytes_per_token": per_token,
        }

    def _encode_rows(self, name: str, mode: str, tokenizer: Tokenizer) -> Path:
        out = self.folder / "data" / name
        encode_dataset(
            str(self.texts / f"{name}.jsonl"), tokenizer, out, mode=mode, progress=self.progress
        )
        return out

    # Models

    def _pretrain(self) -> dict[str, Any]:
        from dataclasses import replace

        from tokenmill.lm.model import Model
        from tokenmill.lm.model_config import preset
        from tokenmill.lm.pretrain import pretrain
        from tokenmill.lm.sinks import LogSettings

        s = self.settings
        shape = replace(preset("1m"), **s.model, vocab_size=self.tokenizer.vocab_size)
        done = pretrain(
            self.folder / "data" / "stories",
            self.folder / "base",
            model=shape,
            max_steps=s.base_steps,
            seed=s.seed,
            eval_every=max(1, s.base_steps // 10),
            eval_rows=32,
            logs=LogSettings(()),
            progress=self.progress,
            **sizes.BASE,
        )
        return {**_trained(done), "untrained_story": self._story(Model(shape, seed=s.seed))}

    def _story(self, model: Any) -> str:
        """What a model makes of the beginning of a story."""
        from tokenmill.lm.generate import generate

        how = {"max_tokens": STORY_TOKENS, "temperature": 0.0}
        (told,) = generate(model, self.tokenizer, [STORY_PROMPT], **how)
        return STORY_PROMPT + told.text

    def _sft(self) -> dict[str, Any]:
        from tokenmill.lm.post_training_settings import SftSettings
        from tokenmill.lm.sft import sft
        from tokenmill.lm.sinks import LogSettings

        data = self._encode_rows("conversations", "sft", self.tokenizer)
        done = sft(
            data,
            self.folder / "sft",
            base=self.folder / "base",
            options=SftSettings(epochs=1.0),
            logs=LogSettings(()),
            seed=self.settings.seed,
            progress=self.progress,
            **sizes.SFT,
        )
        return _trained(done)

    def _dpo(self) -> dict[str, Any]:
        from tokenmill.lm.dpo import dpo
        from tokenmill.lm.sinks import LogSettings

        data = self._encode_rows("pairs", "preference", self._load("sft").tokenizer)
        done = dpo(
            data,
            self.folder / "dpo",
            base=self.folder / "sft",
            logs=LogSettings(()),
            seed=self.settings.seed,
            progress=self.progress,
            **sizes.DPO,
        )
        return _trained(done)

    def _load(self, stage: str) -> Any:
        from tokenmill.lm.open_model import open_model

        return open_model(self.folder / stage, device="cpu")

    # Measures

    def _measure_base(self) -> dict[str, Any]:
        from tokenmill.dataset.dataset import Dataset
        from tokenmill.lm.evaluate import evaluate

        loaded = self._load("base")
        split = Dataset.open(self.folder / "data" / "stories").splits["validation"]
        found = evaluate(loaded.model, split, tokenizer_sha256=loaded.tokenizer_sha256)
        least = small_world.entropy_bits_per_byte()
        right = self._right(loaded)
        said = f"{found.bits_per_byte:.3f} bits per byte, the world's entropy is {least:.3f}"
        return {
            **right,
            "said": said,
            "bits_per_byte": found.bits_per_byte,
            "entropy": least,
            "story": self._story(loaded.model),
        }

    def _measure_assistant(self, stage: str) -> dict[str, Any]:
        from tokenmill.lm.preference_scoring import score_preferences

        loaded = self._load(stage)
        pairs = self.texts / "test-pairs.jsonl"
        found = score_preferences(loaded.model, loaded.tokenizer, pairs)
        right = self._right(loaded)
        said = f"{right['right']:.1%} of the questions right, {found.accuracy:.1%} of the pairs"
        return {**right, "said": said, "preference_accuracy": found.accuracy}

    def _right(self, loaded: Any) -> dict[str, Any]:
        """Right answers, some of them for people to read, and what the model is."""
        from tokenmill.lm.answering import ask, read_questions, share_right
        from tokenmill.lm.start_from import weights_sha256

        answered = ask(
            loaded.model, loaded.tokenizer, read_questions(self.texts / "questions.jsonl")
        )
        return {
            "right": share_right(answered),
            "answers": [each.as_json() for each in answered[:SHOWN]],
            "weights_sha256": weights_sha256(loaded.model.state_dict()),
            "parameters": loaded.model.num_parameters,
        }

    def _export(self) -> dict[str, Any]:
        from tokenmill.lm.export import export_model

        out = self.folder / "assistant"
        loaded = self._load("dpo")
        export_model(loaded, out)
        return {"said": f"{out}: transformers and vLLM open it"}


def _write(path: Path, texts: Iterator[str], separator: str = "") -> None:
    with open_atomically(path) as file:
        for number, text in enumerate(texts):
            file.write(((separator if number else "") + text).encode())


def _trained(done: Any) -> dict[str, Any]:
    loss = "" if done.train_loss is None else f", loss {done.train_loss:.4f}"
    return {"said": f"{done.step:,} steps{loss}", "steps": done.step, "loss": done.train_loss}
