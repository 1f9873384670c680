"""`tokenmill lm account`: shapes of models in, what they cost out."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, print_json, set_up_logging
from tokenmill.errors import ConfigError
from tokenmill.lm.model_config import PRESETS, ModelConfig

if TYPE_CHECKING:
    from tokenmill.lm.accounting import Account, Breakdown

Named = tuple[str, "Account"]


@answering_errors
def account(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help=f"A shape that has a name: {', '.join(PRESETS)}; repeat to compare.",
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            "--config", metavar="FILE", help="A shape from TOML, table [model]; repeat to compare."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a setting, such as `model.d_model=512`."
        ),
    ] = None,
    context: Annotated[
        list[int] | None,
        typer.Option(
            "--context",
            metavar="N",
            min=1,
            help=flags.help_text("Tokens of a sequence; repeat to compare.", "the model's own"),
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option("--batch-size", metavar="N", min=1, help="Sequences at a time, for memory."),
    ] = 1,
    explain: Annotated[
        bool, typer.Option("--explain", help="Write out every product with its numbers.")
    ] = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Count parameters, FLOPs and memory of models before training them.

    Without `--preset` and `--config` it is the default shape, with what `--set` changes. FLOPs are
    those of matrix products, with attention over all pairs of positions.
    """
    from tokenmill.lm.accounting import account as account_of

    set_up_logging(verbose)
    shapes = _shapes(preset or [], config or [], changes or [])
    accounts = [
        (name, account_of(shape, context=length, batch_size=batch_size))
        for name, shape in shapes
        for length in context or [None]
    ]
    if json:
        print_json({"accounts": [_as_json(name, each, explain) for name, each in accounts]})
    elif not quiet:
        for line in _lines(accounts, explain=explain):
            print(line)


def _shapes(
    presets: list[str], files: list[Path], changes: list[str]
) -> Iterator[tuple[str, ModelConfig]]:
    from tokenmill.lm.config_file import apply_overrides, read_config, require_known, settings_from
    from tokenmill.lm.model_config import preset

    bases: list[tuple[str, ModelConfig, dict[str, Any]]]
    bases = [(name, preset(name), {}) for name in presets]
    for file in files:
        tables = read_config(file)
        if not isinstance(tables.get("model"), dict):
            require_known(tables, ["model"], "table")
            raise ConfigError(f"`{file}` has no table `[model]`")
        bases.append((file.stem, ModelConfig(), tables["model"]))
    for name, base, table in bases or [("default", ModelConfig(), {})]:
        values = apply_overrides({"model": table}, changes)
        shape = values.pop("model")
        require_known(values, [f"model.{field.name}" for field in fields(ModelConfig)])
        if not isinstance(shape, dict):
            raise ConfigError(f"`model` is a table of settings, found `{shape!r}`")
        yield name, settings_from(ModelConfig, cast("dict[str, Any]", shape), "model", base)


def _as_json(name: str, account: "Account", explain: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, **account.as_json()}
    if explain:
        found["products"] = {
            kind: [
                {"component": component.name, "what": product.what, "product": str(product)}
                for component in breakdown.components
                for product in component.products
            ]
            for kind, breakdown in _breakdowns(account)
        }
    return found


def _breakdowns(account: "Account") -> "list[tuple[str, Breakdown]]":
    return [
        ("parameters", account.parameters),
        ("forward_flops", account.forward),
        ("memory_bytes", account.memory),
    ]


def _lines(accounts: Sequence[Named], *, explain: bool) -> Iterator[str]:
    if len(accounts) == 1:
        yield from _one(*accounts[0])
    else:
        yield from _several(accounts)
    for name, each in accounts if explain else ():
        yield ""
        yield from _products(name, each)


# One model: a row for each component.


def _one(name: str, account: "Account") -> Iterator[str]:
    config = account.config
    kv_heads = "" if config.kv_heads == config.num_heads else f" ({config.kv_heads} of keys)"
    yield (
        f"{name}: {config.num_layers} layers, d_model {config.d_model:,}, {config.num_heads} heads"
        f"{kv_heads}, d_ff {config.ff_width:,}, vocab {config.vocab_size:,}, "
        f"context {config.context:,}"
    )
    yield ""
    more = [
        ("without input embedding", account.without_input_embedding),
        ("non-embedding", account.non_embedding),
    ]
    yield from _breakdown("parameters", account.parameters, more)
    yield ""
    thumb = account.rule_of_thumb / account.training_flops
    yield from _breakdown(
        "FLOPs forward",
        account.forward,
        [("causal, exact", account.causal_forward_flops)],
    )
    yield ""
    per_token = account.training_flops_per_token
    yield f"training  {account.training_flops:,} FLOPs a sequence, {per_token:,.0f} a token"
    yield f"6·N·D     {account.rule_of_thumb:,}, the rule of thumb: {thumb:.2f}× of that"
    yield ""
    yield from _memory(account)


def _breakdown(
    heading: str, breakdown: "Breakdown", more: Sequence[tuple[str, int]]
) -> Iterator[str]:
    from tokenmill.report.render.terminal import table
    from tokenmill.report.render.token_counts import bar_of

    rows = [
        (each.name, f"{each.value:,}", f"{each.value / breakdown.total:.2%}")
        for each in breakdown.components
    ]
    rows += [("total", f"{breakdown.total:,}", "")]
    rows += [(f"  {name}", f"{value:,}", "") for name, value in more]
    drawn = [
        "",
        *(bar_of(each.value / breakdown.total) for each in breakdown.components),
        *("" for _ in range(1 + len(more))),
    ]
    lines = list(table((heading, "number", "share"), rows))
    width = max(len(line) for line in lines)
    for line, bar in zip(lines, drawn, strict=True):
        yield f"{line:<{width}}  {bar}".rstrip()


def _memory(account: "Account") -> Iterator[str]:
    from tokenmill.progress import quantity
    from tokenmill.report.render.terminal import table

    memory, other = account.memory, account.other_memory
    values = [(each.name, each.value) for each in memory.components]
    values += [
        ("total", memory.total),
        ("  activations if compiled, about", other["activations_compiled"]),
        ("  logits if made whole", other["logits_whole"]),
        ("  key-value cache, generating", other["key_value_cache"]),
    ]
    rows = [(name, f"{value:,}", gib(value)) for name, value in values]
    yield f"training in float32 with AdamW, {quantity(account.batch_size, 'sequence')} at a time"
    yield from table(("memory", "bytes", "GiB"), rows)


def gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:,.2f}"


# Several models: a row for each.


def _several(accounts: Sequence[Named]) -> Iterator[str]:
    from tokenmill.report.render.terminal import table

    labels = [(name, f"{each.config.context:,}") for name, each in accounts]
    for heading, kind in (("parameters", 0), ("FLOPs forward", 1)):
        breakdowns = [_breakdowns(each)[kind][1] for _, each in accounts]
        names = list(dict.fromkeys(c.name for each in breakdowns for c in each.components))
        first = breakdowns[0].total
        rows = [
            (
                *label,
                f"{each.total:,}",
                f"{each.total / first:.2f}×",
                *(f"{each.share(name):.2%}" for name in names),
            )
            for label, each in zip(labels, breakdowns, strict=True)
        ]
        yield from table(("model", "context", heading, "ratio", *names), rows)
        yield ""
    rows = [
        (
            *label,
            f"{each.without_input_embedding:,}",
            f"{each.non_embedding:,}",
            f"{each.training_flops_per_token:,.0f}",
            f"{each.rule_of_thumb / each.training_flops:.2f}×",
        )
        for label, (_, each) in zip(labels, accounts, strict=True)
    ]
    headings = (
        "without input embedding",
        "non-embedding",
        "training FLOPs a token",
        "6·N·D to that",
    )
    yield from table(("model", "context", *headings), rows)
    yield ""
    names = [each.name for each in accounts[0][1].memory.components]
    rows = [
        (*label, gib(each.memory.total), *(gib(each.memory[name]) for name in names))
        for label, (_, each) in zip(labels, accounts, strict=True)
    ]
    yield from table(("model", "context", "memory, GiB", *names), rows)


# Products, for `--explain`.


def _products(name: str, account: "Account") -> Iterator[str]:
    headings = ("parameters", "FLOPs forward, of one sequence", "memory in bytes")
    for heading, (_, breakdown) in zip(headings, _breakdowns(account), strict=True):
        yield f"{name}: {heading}"
        for component in breakdown.components:
            yield f"  {component.name}: {component.value:,}"
            width = max(len(product.what) for product in component.products)
            for product in component.products:
                yield f"    {product.what:<{width}}  {product}"
        yield f"  total: {' + '.join(f'{each.value:,}' for each in breakdown.components)}"
        yield f"       = {breakdown.total:,}"
    forward, context = account.forward.total, account.config.context
    yield f"{name}: training"
    yield f"  forth and back: 3 · forward = 3 · {forward:,} = {account.training_flops:,}"
    yield (
        f"  a token: {account.training_flops:,} / {context:,} = "
        f"{account.training_flops_per_token:,.0f}"
    )
    yield (
        f"  6·N·D: 6 · parameters · tokens = 6 · {account.parameters.total:,} · {context:,} = "
        f"{account.rule_of_thumb:,}"
    )
