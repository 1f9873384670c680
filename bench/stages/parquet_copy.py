"""Write a text corpus as Parquet, one document a row, uncompressed, pyarrow's defaults otherwise."""

from itertools import islice
from pathlib import Path

from bench.documents import stream_documents


def write_parquet(path: Path, separator: str, rows_per_group: int, out: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("text", pyarrow.string())])
    documents = stream_documents(path, separator)
    with pyarrow.parquet.ParquetWriter(out, schema, compression="none") as writer:
        while rows := list(islice(documents, rows_per_group)):
            table = pyarrow.table({"text": rows}, schema=schema)
            writer.write_table(table, row_group_size=rows_per_group)
