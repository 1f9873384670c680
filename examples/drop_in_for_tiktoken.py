"""Code written for tiktoken runs on tokenmill when its import line is changed: the same ids, sooner.

Prints:
    [257, 266, 275]
    8 tokens
    ValueError: the text holds the disallowed special token `<|im_end|>` at character 3
    same ids as tiktoken: True
"""

import tiktoken as original

import tokenmill as tm
from tokenmill.compat import tiktoken  # was: import tiktoken

texts = ["the cat sat on the mat", "the dog sat on the log", "the cat saw the dog"]
trained = tm.train(tm.documents(texts), vocab_size=300, pattern="gpt4", special_tokens=[])
base = tiktoken.Encoding.from_tokenizer(trained)

# From here on it is the code of the tiktoken cookbook.
chat = tiktoken.Encoding(
    name="chat",
    pat_str=base._pat_str,
    mergeable_ranks=base._mergeable_ranks,
    special_tokens={**base._special_tokens, "<|im_end|>": base.n_vocab},
)
print(chat.encode("the cat<|im_end|>", allowed_special={"<|im_end|>"}))
print(len(chat.encode("the dog saw the cat on the log")), "tokens")
try:
    chat.encode("the<|im_end|>")
except ValueError as error:
    print("ValueError:", str(error).splitlines()[0])

parts = {"pat_str": chat._pat_str, "mergeable_ranks": chat._mergeable_ranks}
theirs = original.Encoding("chat", **parts, special_tokens=chat._special_tokens)
print("same ids as tiktoken:", theirs.encode_batch(texts) == chat.encode_batch(texts))
