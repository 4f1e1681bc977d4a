"""Build of the documentation site, without network access.

    python -m docs.site.build       # into build/site; `make site` does the same

The pages are docs/**/*.md. The API reference is made from docstrings (pages.py), `llms.txt` and
`llms-full.txt` from the pages. Exits with 1 for a dead link, a page that is not in the navigation,
or a public name without a description. Entry point: `main`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import griffe
from docs.site.pages import REFERENCE
from typing_extensions import override

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SETTINGS = DOCS / "site" / "zensical.toml"
STYLES = DOCS / "site" / "extra.css"
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"

PROJECT = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "ARCHITECTURE.md",
)
"""Files of the root that are pages of the site too, in its folder `project`."""
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
_COMMENT = re.compile(r"^<!-- (?:run|script|help): ?(?:(?!-->).)* -->\n", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    pages = [*_sources()]
    for page, text in pages:
        target = SOURCE / "docs" / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    _copy_pictures()
    shutil.copy(STYLES, SOURCE / "docs")
    settings = SETTINGS.read_text(encoding="utf-8")
    (SOURCE / "zensical.toml").write_text(
        settings.replace("{{ source }}", str(ROOT / "src")), encoding="utf-8"
    )
    problems = [
        *missing(settings, {page for page, _ in pages}),
        *(f"{name} has no description" for name in undocumented()),
    ]
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=SOURCE, check=False
    )
    if built.returncode != 0:
        return built.returncode
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(SOURCE / "site", SITE)
    _write_for_models(tomllib.loads(settings), dict(pages))
    problems += dead_links(SITE)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


# ---------------------------------------------------------------- sources


def _sources() -> Iterator[tuple[str, str]]:
    """Yield the path below docs/ and the text of each page."""
    for path in sorted(DOCS.rglob("*.md")):
        yield path.relative_to(DOCS).as_posix(), _as_page(path)
    for name in PROJECT:
        yield f"project/{name.lower()}", _as_page(ROOT / name)
    for name, (title, names) in REFERENCE.items():
        blocks = "\n".join(f"::: {each}\n" for each in names)
        yield f"reference/api/{name}.md", f"# {title}\n\n{blocks}"


def _as_page(path: Path) -> str:
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    spans = [fence.span() for fence in _FENCE.finditer(text)]

    def placed(link: re.Match[str]) -> str:
        if any(begin <= link.start() < end for begin, end in spans):
            return link[0]
        return f"{link[1]}[{link[2]}]({target})" if (target := _placed(path, link[3])) else link[2]

    return _LINK.sub(placed, text)


def _placed(page: Path, link: str) -> str | None:
    """Return the address of a link on the site; None for a file that is no page of it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path:
        return link
    target = (page.parent / parts.path).resolve()
    here = _page_of(page).parent
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    if target == ROOT / "README.md":
        target = DOCS / "index.md"
    is_page = target.is_relative_to(DOCS) and target.suffix in (".md", ".svg", ".png")
    if is_page or (target.parent == ROOT and target.name in PROJECT):
        return _relative(_page_of(target), here) + fragment
    if target == DOCS / "decisions":
        return _relative(Path("decisions/001-values-in-msgspec.md"), here)
    return None


def _page_of(path: Path) -> Path:
    if path.parent == ROOT:
        return Path("project") / path.name.lower()
    return path.relative_to(DOCS)


def _relative(target: Path, folder: Path) -> str:
    ups = 0
    while folder.parts[: len(folder.parts) - ups] != target.parts[: len(folder.parts) - ups]:
        ups += 1
    return "../" * ups + "/".join(target.parts[len(folder.parts) - ups :])


def _copy_pictures() -> None:
    for path in (*DOCS.rglob("*.svg"), *DOCS.rglob("*.png")):
        target = SOURCE / "docs" / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


# ---------------------------------------------------------------- what must hold


def _listed(nav: object) -> Iterator[tuple[str, str]]:
    """Yield title and page of each entry of the navigation."""
    for entry in cast("list[Mapping[str, object]]", nav):
        for title, value in entry.items():
            if isinstance(value, str):
                yield title, value
            else:
                yield from _listed(value)


def missing(settings: str, pages: set[str]) -> Iterator[str]:
    listed = {page for _, page in _listed(tomllib.loads(settings)["project"]["nav"])}
    for page in sorted(pages - listed):
        if not page.startswith("decisions/"):
            yield f"docs/{page} is not in the navigation (docs/site/zensical.toml)"
    for page in sorted(listed - pages):
        yield f"docs/site/zensical.toml lists {page}, which does not exist"


def undocumented() -> list[str]:
    """Return the public names of the reference that have no description."""
    package = griffe.load("treadle", search_paths=[ROOT / "src"], resolve_aliases=True)
    names = [name for _, listed in REFERENCE.values() for name in listed]
    return [bare for name in names for bare in undescribed(package[name.partition(".")[2]], name)]


def undescribed(given: griffe.Object | griffe.Alias, name: str) -> Iterator[str]:
    one = given.final_target if isinstance(given, griffe.Alias) else given
    if one.docstring is None:
        yield name
        return
    described = {
        field.name
        for section in one.docstring.parse("google")
        if section.kind is griffe.DocstringSectionKind.attributes
        for field in cast("list[griffe.DocstringAttribute]", section.value)
    }
    if not isinstance(one, griffe.Class | griffe.Module):
        return
    for member_name, member in one.members.items():
        is_ours = isinstance(one, griffe.Module) and member.is_alias
        if member_name.startswith("_") or is_ours or member_name in described:
            continue
        if isinstance(one, griffe.Module):
            yield from undescribed(member, f"{name}.{member_name}")
        elif member.docstring is None and not _overrides(member):
            yield f"{name}.{member_name}"


def _overrides(member: griffe.Object | griffe.Alias) -> bool:
    """Return True for a method that its base class describes."""
    return isinstance(member, griffe.Function) and any(
        decorator.callable_path.endswith(".override") for decorator in member.decorators
    )


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links = set[str]()
        self.anchors = set[str]()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if value and ((tag == "a" and name == "href") or (tag == "img" and name == "src")):
                self.links.add(value)


def dead_links(site: Path) -> Iterator[str]:
    """Yield links of the built pages to files or headings that do not exist."""
    pages = {page: _Links() for page in site.rglob("*.html")}
    for page, parser in pages.items():
        parser.feed(page.read_text(encoding="utf-8"))
    for page, parser in pages.items():
        for link in sorted(parser.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            place = page.relative_to(site)
            if not target.exists():
                yield f"{place}: the link {link} leads nowhere"
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                yield f"{place}: the link {link} leads to no heading"


# ---------------------------------------------------------------- llms.txt


def _write_for_models(settings: Mapping[str, Any], pages: Mapping[str, str]) -> None:
    """Write an index for language models, and all pages as one file."""
    project = settings["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}", ""]
    whole: list[str] = []
    for title, page in _listed(project["nav"]):
        text = pages[page]
        if page.startswith("reference/api/"):
            continue
        address = page.removesuffix("index.md").removesuffix(".md")
        lines.append(f"- [{title}]({project['site_url']}{address}): {_summary(text)}")
        whole.append(f"<!-- {page} -->\n\n{text.strip()}\n")
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (SITE / "llms-full.txt").write_text("\n".join(whole), encoding="utf-8")


def _summary(text: str) -> str:
    """Return the first sentence below the title."""
    body = text.partition("\n")[2].strip().partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.:]) ", _LINK.sub(lambda link: link[2], body))[0].strip("*: ")


if __name__ == "__main__":
    sys.exit(main())
