"""`tokenmill lm`: language models. Each command has a module of its own; torch loads where it is used."""

import typer

from tokenmill.cli.lm_account import account
from tokenmill.cli.lm_evaluate import evaluate
from tokenmill.cli.lm_export import export
from tokenmill.cli.lm_generate import generate
from tokenmill.cli.lm_import import import_
from tokenmill.cli.lm_pretrain import pretrain, with_hyphens
from tokenmill.cli.lm_small_world import small_world

lm = typer.Typer(
    name="lm",
    help="Plan, train, measure and use small language models.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

lm.command()(account)
lm.command(context_settings={"token_normalize_func": with_hyphens})(pretrain)
lm.command()(evaluate)
lm.command()(generate)
lm.command()(export)
lm.command("import")(import_)
lm.command("small-world")(small_world)
