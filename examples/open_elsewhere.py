"""Train once, then open the folder with Hugging Face tokenizers and with tiktoken: the same ids.

Prints:
    tokenmill [257, 266, 275]
    tokenizers [257, 266, 275]
    tiktoken [257, 266, 275]
"""

import json
import os

import tiktoken
import tokenizers
from tiktoken.load import load_tiktoken_bpe

import tokenmill as tm

texts = ["the cat sat on the mat", "the dog sat on the log", "the cat saw the dog"]
tm.train(tm.documents(texts), vocab_size=304, pattern="gpt4").save("cats")

text = "the cat<|endoftext|>"

ours = tm.Tokenizer.load("cats")
print("tokenmill", ours.encode(text, allowed_special="all"))

print("tokenizers", tokenizers.Tokenizer.from_file("cats/tokenizer.json").encode(text).ids)

# tiktoken keeps what it read in a cache named after the path; an empty folder name turns that off.
os.environ["TIKTOKEN_CACHE_DIR"] = ""
ranks = load_tiktoken_bpe("cats/ranks.tiktoken")
with open("cats/ranks.json") as file:
    encoding = tiktoken.Encoding(mergeable_ranks=ranks, **json.load(file))
print("tiktoken", encoding.encode(text, allowed_special="all"))
