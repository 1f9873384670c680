"""Many texts at once, a text that arrives in parts, and ids that do.

Prints:
    TokenBatch(3 texts, 20 tokens, uint16)
    ['the cat sat', 'the mat', 'where the cat sat']
    lengths [6, 3, 11]
    the same ids whatever the parts: True
    the| c|a|f|é
"""

import polars

import tokenmill as tm

tokenizer = tm.train(tm.documents(["the cat sat on the mat"] * 9), vocab_size=262)

# A column goes to all cores as it lies in memory; ids come back end to end, with offsets.
frame = polars.DataFrame({"text": ["the cat sat", "the mat", "where the cat sat"]})
batch = tokenizer.encode_batch(frame["text"])
print(batch)
print(tokenizer.decode_batch(batch))
print("lengths", batch.lengths.tolist())

# Ids leave as soon as nothing that follows can change them.
text = "the cat sat on the mat. " * 1000
in_parts = (text[start : start + 7] for start in range(0, len(text), 7))
print(
    "the same ids whatever the parts:",
    [*tokenizer.encode_iterable(in_parts)] == tokenizer.encode(text),
)

# `é` is two tokens here: the first alone is no text yet.
stream = tokenizer.decode_stream()
parts = [stream.feed(token_id) for token_id in tokenizer.encode("the café")]
print("|".join(part for part in parts if part) + stream.finish())
