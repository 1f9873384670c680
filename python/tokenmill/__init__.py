"""tokenmill: from raw text to a small language model, fastest where everything starts.

    >>> import tokenmill as tm
    >>> documents = tm.documents(["low low lower lowest", "newer newest wider"])
    >>> tokenizer = tm.train(documents, vocab_size=270, pattern="gpt2")
    >>> tokenizer.decode(tokenizer.encode("lowest"))
    'lowest'

`train` and `count` read files, folders, globs, iterables and tables; `Tokenizer` encodes, decodes,
saves and loads (`TokenBatch` is what it makes of many texts, `DecodeStream` decodes ids as they
arrive); `PretokenCounts` add up, save and load; `encode_dataset` writes token files and `Dataset`
opens them; `pull` fetches datasets; `lm` trains and runs language models. Errors are subclasses of `TokenmillError`.
"""

from tokenmill import lm
from tokenmill._core import UNICODE_VERSION, __version__
from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.encode import encode_dataset
from tokenmill.errors import (
    ConfigError,
    DeviceError,
    FormatError,
    SourceError,
    TokenmillError,
    VocabError,
)

# From here on `tokenmill.pull` is this function, not the folder of the same name that holds it; the
# same goes for `tokenmill.train` below.
from tokenmill.pull.call import pull
from tokenmill.sources.documents import documents
from tokenmill.sources.options import ReadOptions
from tokenmill.tokenizer.streaming import DecodeStream
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.train.count import count
from tokenmill.train.counts import PretokenCounts
from tokenmill.train.merges import train
from tokenmill.train.report import TrainingReport

__all__ = [
    "UNICODE_VERSION",
    "ConfigError",
    "Dataset",
    "DecodeStream",
    "DeviceError",
    "FormatError",
    "PretokenCounts",
    "ReadOptions",
    "SourceError",
    "TokenBatch",
    "Tokenizer",
    "TokenmillError",
    "TrainingReport",
    "VocabError",
    "__version__",
    "count",
    "documents",
    "encode_dataset",
    "lm",
    "pull",
    "train",
]
