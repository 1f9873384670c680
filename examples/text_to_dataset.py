"""From documents to token files on disk, and back to text.

Prints:
    29 documents in train, 7 in validation, ids as uint16
    no document is in both
    document 3: The owl of day 0 watches.<|endoftext|>
    2.97 bytes a token, without the ends
"""

from pathlib import Path

import tokenmill as tm

animals = {"cat": "purrs", "dog": "barks", "fox": "sleeps", "owl": "watches"}
days = [f"The {name} of day {day} {does}." for day in range(9) for name, does in animals.items()]
Path("days.txt").write_text("<|endoftext|>".join(days))

tokenizer = tm.train("days.txt", vocab_size=300)
dataset = tm.encode_dataset("days.txt", tokenizer, "ids", val_fraction=0.25, seed=3)

train, validation = dataset["train"], dataset["validation"]
sizes = f"{len(train)} documents in train, {len(validation)} in validation"
print(f"{sizes}, ids as {dataset.tokens.dtype}")

texts = [{tokenizer.decode(ids) for ids in split} for split in (train, validation)]
print("no document is in both" if not texts[0] & texts[1] else "some documents are in both")
print(f"document 3: {dataset.tokenizer.decode(dataset.document(3))}")

text_bytes = sum(train.bytes_of(number) for number in range(len(train)))
print(f"{text_bytes / (train.num_tokens - len(train)):.2f} bytes a token, without the ends")
