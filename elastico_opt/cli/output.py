"""Writing results: whole files or none, and nothing but results on standard output."""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import tempfile
from pathlib import Path

import click

from elastico_opt.errors import InputError


def check_writable(path: Path | None) -> None:
    """Refuse, before any work, a place that cannot be written.

    Raises
    ------
    InputError
        When the folder is missing or closed, or the path is a folder.
    """
    if path is None or str(path) == "-":
        return
    folder = path.resolve().parent
    if path.is_dir():
        raise InputError(f"{path}: is a folder: name a file in it")
    if not folder.is_dir():
        raise InputError(f"{path}: the folder {folder} does not exist: make it first")
    place = path if path.exists() else folder
    if not os.access(place, os.W_OK):
        raise InputError(f"{path}: cannot be written: permission denied")


def write_file(path: Path, text: str) -> None:
    """Write a file in one step: readers see the old or the new one, never a part.

    ``.gz`` is compressed. Devices and pipes are written directly.

    Raises
    ------
    InputError
        When the file cannot be written; the old one, if any, is untouched.
    """
    data = _encode(text)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _replace(target: Path, data: bytes) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _encode(text: str) -> bytes:
    """Encode JSON text; a lone surrogate (JSON may hold one) becomes its JSON escape again."""
    return text.encode("utf-8", errors="backslashreplace")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def emit(text: str, path: Path | None) -> None:
    """Write data to a file, or to standard output when there is none (or it is ``-``)."""
    text = text if text.endswith("\n") else text + "\n"
    if path is not None and str(path) != "-":
        try:
            write_file(path, text)
        except InputError:
            click.echo(_encode(text), nl=False)  # what was computed is not lost
            raise
    else:
        click.echo(_encode(text), nl=False)  # JSON is UTF-8, whatever the locale


def say(message: str) -> None:
    """Write a line for people to standard error."""
    click.echo(message, err=True)
