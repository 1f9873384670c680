"""Train from tables where they lie: polars, duckdb, pyarrow and Hugging Face datasets share one memory layout.

Prints:
    polars [(b' the', 200), (b' cat', 100)]
    duckdb [(b' the', 200), (b' cat', 100)]
"""

import duckdb
import polars

import tokenmill as tm

frame = polars.DataFrame({"id": range(100), "body": ["on the mat the cat sits"] * 100})
print("polars", tm.count(frame, field="body").most_common(2))

# duckdb finds the polars frame by its variable's name and reads it in place.
relation = duckdb.sql("select body from frame where id >= 0")
print("duckdb", tm.count(relation, field="body").most_common(2))

tokenizer = tm.train(frame, field="body", vocab_size=270)
assert tokenizer == tm.train(relation, field="body", vocab_size=270)
