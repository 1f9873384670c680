"""cases.toml, the adapters and pyproject.toml must speak of the same peers and versions."""

import tomllib

import pytest
from bench.cases import load_cases
from bench.encoders import ENCODERS
from bench.machine import REPOSITORY
from bench.peers import PEERS

CASES = load_cases()


@pytest.mark.parametrize("case", CASES.train, ids=lambda case: case.name)
def test_every_peer_of_a_case_exists_and_knows_its_pattern(case) -> None:
    for name in {*case.peers, *case.faster_than}:
        assert PEERS[name].knows(case.pattern), name


def test_the_peers_that_tests_use_are_pinned_to_the_same_release() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pins = dict(line.split("==") for line in project["dependency-groups"]["dev"] if "==" in line)
    shared = {name: peer.version for name, peer in PEERS.items() if peer.distribution in pins}
    assert set(shared) == {"tokenizers", "rustbpe", "gigatoken"}
    assert all(pins[name] == version for name, version in shared.items())


def test_the_package_asks_for_no_peer() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = " ".join(project["project"]["dependencies"])
    assert not any(peer.distribution in wanted for peer in [*PEERS.values(), *ENCODERS.values()])


def test_each_adapter_names_itself() -> None:
    for peer in PEERS.values():
        assert peer.program == f"bench.peers.{peer.distribution.replace('-', '_')}"


def test_every_encoder_of_a_case_exists_at_the_release_that_tests_use() -> None:
    goals = (CASES.encode.faster_than, CASES.call.faster_than, CASES.compat.faster_than)
    named = {*CASES.encode.peers, *(name for goal in goals for name in goal)}
    assert named == set(ENCODERS)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pins = dict(line.split("==") for line in project["dependency-groups"]["dev"] if "==" in line)
    for library in ENCODERS.values():
        assert pins[library.distribution] == library.version
        assert library.program == f"bench.encoders.{library.name}"


def test_the_larger_run_comes_last() -> None:
    assert list(CASES.pathological.sizes) == sorted(CASES.pathological.sizes)
    assert CASES.pathological.sizes[-1] == 8 * CASES.pathological.sizes[0]
