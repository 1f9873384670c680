"""A split pattern of your own: identifiers of code cut at capitals and underscores, digits one by one.

Prints:
    [b'read', b'Json', b'Lines', b'_', b'v', b'2', b'(', b'path', b')']
    0 pretokens lie between matches
"""

import tokenmill as tm

CODE = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]|_+|\s+|[^\sA-Za-z0-9_]"

text = ["readJsonLines_v2(path)"] * 100
tokenizer = tm.train(tm.documents(text), vocab_size=300, pattern=CODE, special_tokens=[])

# Every pretoken of this text occurs often enough to become one token, so the tokens show the cuts.
print([tokenizer.token_bytes(token_id) for token_id in tokenizer.encode("readJsonLines_v2(path)")])

# What no match covers becomes a pretoken of its own and is counted: a pattern with holes is noticed.
counts = tm.count(tm.documents(text), pattern=CODE)
assert counts.report is not None
print(f"{counts.report.unmatched} pretokens lie between matches")

tokenizer.save("code-tokenizer")
assert tm.Tokenizer.load("code-tokenizer").pattern == CODE
