"""What tokenizers do to a text, in numbers: measure first, draw second."""
