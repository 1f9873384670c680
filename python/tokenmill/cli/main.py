"""The `tokenmill` command: every command in one list, which `--help` shows."""

from typing import Annotated

import typer

from tokenmill.cli.convert import convert
from tokenmill.cli.count import count
from tokenmill.cli.decode import decode
from tokenmill.cli.demo import demo
from tokenmill.cli.encode import encode
from tokenmill.cli.inspect import inspect
from tokenmill.cli.lm import lm
from tokenmill.cli.pull import pull
from tokenmill.cli.report import report
from tokenmill.cli.stats import stats
from tokenmill.cli.train import train
from tokenmill.cli.verify import verify

app = typer.Typer(
    name="tokenmill",
    help="From raw text to a small language model: exact byte-level BPE, fast.",
    no_args_is_help=True,
    add_completion=False,
    # Plain help: rich would cost a tenth of a second for a frame around it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from tokenmill import _core

        print(f"tokenmill {_core.__version__}, Unicode {_core.UNICODE_VERSION}, {_core.CPU_LEVEL}")
        raise typer.Exit()


@app.callback()
def _common(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show version, Unicode version and CPU level.",
        ),
    ] = False,
) -> None:
    pass


app.command()(demo)
app.command()(pull)
app.command()(count)
app.command()(train)
app.command()(encode)
app.command()(decode)
app.command()(convert)
app.command()(inspect)
app.command()(stats)
app.command()(verify)
app.add_typer(report)
app.add_typer(lm)


def main() -> None:
    """What the console script calls."""
    app(prog_name="tokenmill")
