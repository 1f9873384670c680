"""One module for each way other people keep a tokenizer: a Vocab in, bytes out, and back."""
