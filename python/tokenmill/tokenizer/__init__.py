"""Vocab ⇄ text: the tokenizer people use, and the files it is kept in."""
