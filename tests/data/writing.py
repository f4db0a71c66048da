"""Small data files: plain, compressed, or in an archive, as their names say."""

import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ENDINGS = ("", ".gz", ".xz")


def write(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        raw = gzip.compress(raw)
    elif path.suffix == ".xz":
        raw = lzma.compress(raw)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def write_jsonl(path: Path, *records: object) -> Path:
    return write(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def write_tar(path: Path, files: Mapping[str, str | bytes]) -> Path:
    kinds = {".tar": tarfile.TarFile.taropen, ".gz": tarfile.TarFile.gzopen, ".xz": tarfile.TarFile.xzopen}
    with kinds[path.suffix](str(path), "w") as archive:
        for name, content in files.items():
            raw = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return path


def without(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {field: value for field, value in record.items() if field != name}


def ids(examples: Iterable[Any]) -> list[str]:
    return [example.id for example in examples]
