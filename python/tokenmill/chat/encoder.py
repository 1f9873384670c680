"""Rows of conversations to ids and a mask, in the core."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.chat.profile_file import find_profile
from tokenmill.chat.profiles import Profile
from tokenmill.chat.rendering import require_special_tokens
from tokenmill.errors import ConfigError
from tokenmill.sources.choices import require_one_of, require_whole_number
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tokenmill.tokenizer.token_batch import IdArray

MODES = ("sft", "preference")
SHAPES = ("messages", "conversations", "prompt-completion", "alpaca")
TOO_LONG = ("drop", "keep-start", "keep-end", "error")
INVALID_UTF8 = ("error", "replace", "keep")


@dataclass(frozen=True)
class RowOptions:
    """Every choice about rows. ConfigError for one that makes no sense."""

    mode: str = "sft"
    """`sft`: one document for each row; `preference`: two, the chosen and the rejected one."""
    shape: str | None = None
    """How rows hold a conversation; None finds out by the keys of each."""
    max_tokens: int | None = None
    """Longest document; None sets no limit."""
    too_long: str = "drop"
    """What happens to a longer one."""
    invalid_utf8: str = "error"

    def __post_init__(self) -> None:
        require_one_of("mode", self.mode, MODES)
        require_one_of("too-long policy", self.too_long, TOO_LONG)
        require_one_of("policy for invalid UTF-8", self.invalid_utf8, INVALID_UTF8)
        if self.shape is not None:
            require_one_of("shape of rows", self.shape, SHAPES)
            if self.mode == "preference":
                raise ConfigError(
                    f"mode `preference` has one shape of rows, not `{self.shape}`",
                    "leave `shape` out",
                )
        if self.max_tokens is not None:
            require_whole_number("max tokens", self.max_tokens, 1)


def core_encoder(
    tokenizer: Tokenizer,
    profile: str | os.PathLike[str] | Profile = "chat",
    options: RowOptions | None = None,
) -> _core.ChatEncoder:
    """The compiled encoder of rows. ConfigError if the tokenizer lacks special tokens."""
    profile = find_profile(profile)
    options = options or RowOptions()
    require_special_tokens(tokenizer, profile)
    ids = tokenizer.special_tokens

    def pieces(text: str) -> list[int | str]:
        return [ids[each.text] if each.is_special else each.text for each in profile.pieces(text)]

    return _core.ChatEncoder(
        tokenizer._bpe,  # pyright: ignore[reportPrivateUsage]
        roles=[
            (
                name,
                pieces(role.before),
                pieces(role.after),
                role.trained,
                profile.num_trained_after(role),
            )
            for name, role in profile.roles.items()
        ],
        bos=pieces(profile.bos),
        merge_system=profile.merge_system,
        instruction=profile.instruction,
        input=profile.input,
        mode=options.mode,
        shape=options.shape,
        max_tokens=options.max_tokens,
        too_long=options.too_long,
        invalid_utf8=options.invalid_utf8,
    )


@dataclass(frozen=True)
class EncodedRows:
    """Documents, and what became of rows that are none of them.

    In mode `preference` documents come in pairs: the prompt with the chosen answer, then with the
    rejected one.
    """

    ids: "IdArray"
    offsets: "npt.NDArray[np.int64]"
    """n+1 numbers: where each document's ids start."""
    mask: "npt.NDArray[np.uint8]"
    """1 for each id that is trained on."""
    bytes: "npt.NDArray[np.int64]"
    """Bytes of the contents of each document; what a template puts around them is not text."""
    rows: "npt.NDArray[np.int64]"
    """The row each document is of."""
    skipped: Sequence[tuple[int, str, str]]
    """(row, name of the reason, more words)."""
    truncated: int
    lookalikes: Mapping[str, int]
    """How often special tokens stood in contents, as text."""

    @property
    def num_documents(self) -> int:
        return len(self.offsets) - 1

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows were left out for each reason."""
        return dict(Counter(reason for _, reason, _ in self.skipped))

    def document(self, index: int) -> "tuple[IdArray, npt.NDArray[np.uint8]]":
        """Ids and mask of one document."""
        start, end = self.offsets[index], self.offsets[index + 1]
        return self.ids[start:end], self.mask[start:end]


def encode_rows(
    tokenizer: Tokenizer,
    profile: str | os.PathLike[str] | Profile,
    rows: Sequence[str | bytes],
    options: RowOptions | None = None,
    *,
    on_error: str = "fail",
    threads: int | None = 1,
) -> EncodedRows:
    """The documents of `rows`, each of which is one JSON object.

    A row that is not JSON or no conversation is a SourceError naming it, or with `on_error="skip"`
    left out for the reason `unreadable`. The result does not depend on `threads`.
    """
    import numpy as np

    require_one_of("error policy", on_error, ("fail", "skip"))
    encoder = core_encoder(tokenizer, profile, options)
    found = encoder.encode_rows(rows, skip_errors=on_error == "skip", threads=num_threads(threads))
    return EncodedRows(
        ids=np.asarray(found.ids),
        offsets=np.asarray(found.offsets),
        mask=np.asarray(found.mask),
        bytes=np.asarray(found.bytes),
        rows=np.asarray(found.rows),
        skipped=found.skipped,
        truncated=found.truncated,
        lookalikes=found.lookalikes,
    )
