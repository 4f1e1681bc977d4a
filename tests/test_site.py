"""The checks of the documentation site find what they are for. `make check` builds the site itself."""

from __future__ import annotations

from pathlib import Path

import griffe
import pytest
from docs.site.build import dead_links, missing, undescribed, undocumented

NAV = '[project]\nnav = [{ "Home" = "index.md" }, { "More" = [{ "Gone" = "gone.md" }] }]\n'


def test_every_public_name_has_a_description() -> None:
    assert undocumented() == []


@pytest.mark.parametrize("link", ["other/", "other/#there", "#here", "https://example.com/x"])
def test_a_link_that_leads_somewhere_is_no_problem(tmp_path: Path, link: str) -> None:
    assert problems_with(tmp_path, link) == []


@pytest.mark.parametrize("link", ["another/", "other/#elsewhere", "#nowhere", "picture.svg"])
def test_a_dead_link_is_found(tmp_path: Path, link: str) -> None:
    [problem] = problems_with(tmp_path, link)
    assert problem.startswith(f"index.html: the link {link} leads ")


def problems_with(site: Path, link: str) -> list[str]:
    (site / "other").mkdir()
    (site / "index.html").write_text(f'<h1 id="here">A</h1><a href="{link}">b</a>')
    (site / "other" / "index.html").write_text('<h1 id="there">C</h1>')
    return [*dead_links(site)]


def test_pages_and_navigation_agree() -> None:
    assert [*missing(NAV, {"index.md", "new.md", "decisions/001-a.md"})] == [
        "docs/new.md is not in the navigation (docs/site/zensical.toml)",
        "docs/site/zensical.toml lists gone.md, which does not exist",
    ]


def test_fields_are_described_by_themselves_or_by_their_class(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(
        '''"""A module."""\n\n\nclass Thing:\n    """A thing.\n\n    Attributes:\n        a: Described here.\n    """\n\n'''
        '''    a: int\n    b: int\n    """Described there."""\n    c: int\n\n    def d(self) -> None: ...\n'''
    )
    module = griffe.load("sample", search_paths=[tmp_path])
    assert [*undescribed(module, "sample")] == ["sample.Thing.c", "sample.Thing.d"]
