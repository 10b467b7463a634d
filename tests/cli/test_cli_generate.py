"""`elastico-opt generate`: seeded, and readable by the other commands."""

from __future__ import annotations

from typing import Any

from elastico_opt import parse_snapshot, read_snapshot


def test_the_same_seed_gives_the_same_file(run: Any, tmp_path: Any) -> None:
    one = run("generate", "--jobs", 5, "--gpus", 2, "--seed", 3)
    assert one.exit_code == 0, one.output
    assert one.stdout == run("generate", "--jobs", 5, "--gpus", 2, "--seed", 3).stdout
    assert one.stdout != run("generate", "--jobs", 5, "--gpus", 2, "--seed", 4).stdout
    assert len(parse_snapshot(one.stdout).jobs) == 5


def test_a_compressed_file(run: Any, tmp_path: Any) -> None:
    done = run("generate", "--jobs", 4, "--load", "0.8", "--no-host", "-o", "s.json.gz")
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "s.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert len(read_snapshot(tmp_path / "s.json.gz").jobs) == 4


def test_bad_dials_are_one_line(run: Any) -> None:
    for args in (["--family", "mixd"], ["--interference", "2"], ["--load", "x"]):
        done = run("generate", *args)
        assert (done.exit_code, done.stdout) == (2, ""), args
        assert done.stderr.count("\n") == 1
