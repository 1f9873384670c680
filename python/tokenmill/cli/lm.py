"""`tokenmill lm`: language models. Each command has a module of its own; torch loads where it is used."""

import typer

from tokenmill.cli.lm_account import account
from tokenmill.cli.lm_chat import chat
from tokenmill.cli.lm_evaluate import evaluate
from tokenmill.cli.lm_export import export
from tokenmill.cli.lm_generate import generate
from tokenmill.cli.lm_import import import_
from tokenmill.cli.lm_post_training import dpo, sft
from tokenmill.cli.lm_pretrain import pretrain
from tokenmill.cli.lm_small_world import small_world
from tokenmill.cli.lm_training import with_hyphens

lm = typer.Typer(
    name="lm",
    help="Plan, train, measure and use small language models.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

lm.command()(account)
for stage in (pretrain, sft, dpo):
    lm.command(context_settings={"token_normalize_func": with_hyphens})(stage)
lm.command()(evaluate)
lm.command()(generate)
lm.command()(chat)
lm.command()(export)
lm.command("import")(import_)
lm.command("small-world")(small_world)
