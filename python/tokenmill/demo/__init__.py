"""The demo: the whole way from text to an assistant, on the small world, with a report at the end."""
