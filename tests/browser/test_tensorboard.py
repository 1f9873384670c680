"""TensorBoard on a run that was really trained, in a real browser: started as `lm pretrain` says, looked at as people do.

Needs Chromium (`chromium` of Debian, or what `TOKENMILL_CHROMIUM` names); nothing is downloaded. `TOKENMILL_SCREENSHOTS` names a
folder where what was seen is kept.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tokenmill.lm.metrics import read_metrics

pytestmark = pytest.mark.browser
WAIT_SECONDS = 120
CARDS = {
    "loss/bits_per_byte": [("validation", "bits_per_byte")],
    "loss/nats_per_token": [("train", "loss"), ("validation", "loss")],
    "step/grad_norm": [("train", "grad_norm")],
    "step/lr": [("train", "lr")],
    "step/mfu": [("train", "mfu")],
    "step/tokens_per_second": [("train", "tokens_per_second")],
}
"""In the order they are shown: the runs in each, and what `metrics.jsonl` calls the number."""


def tokenmill(folder: Path, command: str, *more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", *command.split(), *more],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the small world, in `run`, and what the command said about it in `said`."""
    folder = tmp_path_factory.mktemp("tensorboard")
    tokenmill(folder, "lm small-world --stories 2000 --seed 1 --out stories.txt --quiet")
    tokenmill(folder, "train stories.txt --vocab-size 512 --out tok --quiet")
    tokenmill(folder, "encode stories.txt --tokenizer tok --out ids --val-fraction 0.05 --quiet")
    pretrain = (
        "lm pretrain --data ids --out run --preset 1m --context 64 --max-steps 200 --batch-size 8 "
        "--lr 0.003 --eval-every 10 --eval-rows 32 --sample-every 100 --device cpu --log tensorboard"
    )
    said = tokenmill(folder, pretrain, "--sample-prompt", "One day")
    (folder / "said").write_text(said)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where TensorBoard shows the run, started by the command that training has printed."""
    found = re.search(r"tensorboard (--logdir \S+)", (folder / "said").read_text())
    assert found is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "tensorboard.log"
    with log.open("w") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", *found[1].split(), "--port", str(port)],
            cwd=folder,
            stdout=output,
            stderr=output,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + WAIT_SECONDS
        while not answers(address):
            assert running.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        running.terminate()
        running.wait()


def answers(address: str) -> bool:
    """Whether it is there and has read both runs."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/data/runs") as reply:
        return set(re.findall(rb'"([^"]+)"', reply.read())) == {b"train", b"validation"}
    return False


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = os.environ.get("TOKENMILL_CHROMIUM") or shutil.which("chromium")
    assert program is not None, "there is no `chromium` in PATH"
    with sync_playwright() as driver:
        # Chromium has no sandbox for root, who is who CI runs as; it opens nothing but our own server.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 1630})
    page.set_default_timeout(WAIT_SECONDS * 1000)
    expect.set_options(timeout=WAIT_SECONDS * 1000)
    yield page
    page.close()


def keep(page: Page, name: str) -> None:
    folder = os.environ.get("TOKENMILL_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_time_series_show_every_curve(folder: Path, address: str, page: Page) -> None:
    """One card for each, opened without a click, with the last values of `metrics.jsonl` below the curves."""
    page.goto(f"{address}/?smoothing=0#timeseries")
    cards = page.locator("card-view")
    expect(cards).to_have_count(len(CARDS))
    page.get_by_role("button", name="Close side pane").click()
    last = {record["kind"]: record for record in read_metrics(folder / "run")}
    for card, name in zip(cards.all(), CARDS, strict=True):
        card.scroll_into_view_if_needed()
        expect(card).to_contain_text(name)
        for kind, key in CARDS[name]:
            row = card.locator("tb-data-table-content-row", has_text=kind)
            expect(row).to_contain_text("200")
            if "loss" in name:
                expect(row).to_contain_text(f"{last[kind][key]:.4f}"[:4])
    cards.first.scroll_into_view_if_needed()
    keep(page, "tensorboard")


def test_text_shows_the_samples(address: str, page: Page) -> None:
    page.goto(f"{address}/#text")
    expect(page.get_by_text("step 200").first).to_be_visible()
    expect(page.get_by_text("step 100").first).to_be_visible()
    expect(page.get_by_text(re.compile("^One day")).first).to_be_visible()
    keep(page, "tensorboard-text")
