"""A hook of the site: what documents link to outside of docs/ is published along with them.

A link such as `../src/longspan/attention/pattern.py` works in a browser of the repository. On the site it
leads to a page below repository/ that shows the file: Markdown as a page, an image as itself, anything else
as code. So the site is whole without an address of the repository. A link to a folder leads to its README.md;
one to a folder without it, or to nothing, ends the build.
"""

import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
CODE = re.compile(r"^( *)```.*?^\1```", flags=re.MULTILINE | re.DOTALL)
IMAGES = (".png", ".svg")
LEXERS = {".py": "python", ".yaml": "yaml", ".json": "json", ".cpp": "cpp", ".h": "cpp", ".toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files that links lead to, and those that these lead to."""
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        uri = waiting.pop()
        text = _path(uri).read_text() if _path(uri).suffix == ".md" else ""
        for _, target, _ in LINK.findall(CODE.sub("", text)):
            path = _target(uri, target)
            place = _place(path)
            if place.startswith("repository/") and files.get_file_from_path(place) is None:
                files.append(_published(path, place, config))
                waiting.append(place)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links of a page to what `on_files` added."""
    uri = page.file.src_uri
    if _path(uri).suffix != ".md":
        return markdown
    folder = posixpath.dirname(uri) or "."

    def turned(link: re.Match[str]) -> str:
        place = posixpath.relpath(_place(_target(uri, link[2])), folder)
        return f"{link[1]}{place}{link[3]}"

    pieces: list[str] = []
    end = 0
    for code in CODE.finditer(markdown):
        pieces += [LINK.sub(turned, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, LINK.sub(turned, markdown[end:])])


def _path(uri: str) -> Path:
    """The file that a page of the site shows."""
    if not uri.startswith("repository/"):
        return ROOT / "docs" / uri
    path = PurePosixPath(uri).relative_to("repository")
    return ROOT / (path.with_suffix("") if not (ROOT / path).exists() else path)


def _target(uri: str, target: str) -> Path:
    path = (_path(uri).parent / target).resolve()
    path = path / "README.md" if path.is_dir() else path
    if not path.is_file() or not path.is_relative_to(ROOT):
        raise PluginError(f"{uri} links to {target}; it must be a file of ours, or a folder with a README.md")
    return path


def _place(path: Path) -> str:
    """Where a file is on the site, as a source: a file of docs/ where it is, any other below repository/."""
    if path.is_relative_to(ROOT / "docs"):
        return path.relative_to(ROOT / "docs").as_posix()
    shown = path.suffix in (".md", *IMAGES)
    return f"repository/{path.relative_to(ROOT).as_posix()}{'' if shown else '.md'}"


def _published(path: Path, place: str, config: MkDocsConfig) -> File:
    if path.suffix in (".md", *IMAGES):
        return File.generated(config, place, abs_src_path=str(path))
    name = path.relative_to(ROOT).as_posix()
    # The fence is one that no file of ours has. Code would crowd the search.
    code = f"~~~~~~{LEXERS.get(path.suffix, 'text')}\n{path.read_text()}\n~~~~~~\n"
    return File.generated(config, place, content=f"---\nsearch: {{exclude: true}}\n---\n\n# {name}\n\n{code}")
