"""Documents → counts → merges → tokenizer."""
