"""Documents by format: what people name as input becomes documents for the counter."""
