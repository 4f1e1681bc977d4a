"""`read` shows notebooks as cells and PDF files as text, and no such file ends a run."""

from __future__ import annotations

import base64
import io
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import MakeContext, Use
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.builtin import pdf_pages, pdf_text
from treadle.tools.builtin.read import Read
from treadle.tools.tool import InvalidArguments, ToolFailed

READ = Read()
PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
    )
).decode()


def notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def code(source: str, *outputs: dict[str, Any], count: int | None = 1) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "source": source.splitlines(keepends=True),
        "execution_count": count,
        "metadata": {},
        "outputs": list(outputs),
    }


def pdf(*texts: str) -> bytes:
    """One page for each text."""
    count = len(texts)
    kids = " ".join(f"{3 + 2 * i} 0 R" for i in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
    ]
    for i, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET"
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {4 + 2 * i} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    return assembled([one.encode() for one in objects])


def assembled(objects: list[bytes]) -> bytes:
    data, places = b"%PDF-1.7\n", list[int]()
    for number, one in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    xref = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    return data + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        xref,
    )


# ---------------------------------------------------------------- notebooks


async def test_a_notebook_is_shown_as_cells_with_their_outputs(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(
        notebook(
            {"cell_type": "markdown", "source": "# Title", "metadata": {}},
            code(
                "x = 1\nprint(x)",
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["7"]}, "metadata": {}},
                {
                    "output_type": "error",
                    "ename": "ValueError",
                    "evalue": "no",
                    "traceback": ["\x1b[31mline\x1b[0m", "two"],
                },
                count=3,
            ),
        )
    )
    assert await use(READ, path="a.ipynb") == (
        "[cell 1: markdown]\n# Title\n\n"
        "[cell 2: code, run 3]\nx = 1\nprint(x)\n[output: stdout]\n1\n[output]\n7\n"
        "[output: error ValueError: no]\nline\ntwo"
    )


async def test_images_of_a_notebook_come_as_images(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(
        notebook(
            code("plot()", {"output_type": "display_data", "data": {"image/png": PIXEL + "\n"}}),
            code("plot()", {"output_type": "display_data", "data": {"image/png": "%%%"}}),
        )
    )
    shown = await use(READ, path="a.ipynb")
    assert not isinstance(shown, str)
    text, image = shown
    assert isinstance(text, TextPart)
    assert isinstance(image, MediaPart)
    assert (image.media_type, image.data) == ("image/png", PIXEL)
    assert "[output: image/png, shown below as image 1 of this cell]" in text.text
    assert "[output: an image, not shown: its data is broken]" in text.text


async def test_cells_are_paged_and_long_outputs_keep_both_ends(use: Use, tmp_path: Path) -> None:
    long = "begin " + "x" * 9_000 + " end"
    many = [
        code(f"cell{n}", {"output_type": "stream", "name": "stdout", "text": long})
        for n in range(1, 41)
    ]
    (tmp_path / "a.ipynb").write_text(notebook(*many))
    shown = await use(READ, path="a.ipynb")
    assert isinstance(shown, str)
    assert len(shown) <= READ.max_output
    assert shown.count("characters left out") == shown.count("begin ") == shown.count(" end\n")
    assert "of 40; use offset=" in shown
    last = await use(READ, path="a.ipynb", offset=-1)
    assert str(last).startswith("[cell 40: code")
    assert "use offset=4 to read on" in str(await use(READ, path="a.ipynb", offset=2, limit=2))
    with pytest.raises(ToolFailed, match="which has 40 cells"):
        await use(READ, path="a.ipynb", offset=41)


@pytest.mark.parametrize(
    "text",
    [
        '{"cells": ' + "[" * 200_000,
        '{"cells": 1}',
        "not JSON",
        '{"cells": [' + "{}," * 200_000 + "{}]}",
        '{"metadata": ' + '{"a":' * 90_000,
    ],
    ids=["deep", "other", "text", "many", "deep beside"],
)
async def test_a_notebook_that_is_none_is_shown_as_text(
    use: Use, tmp_path: Path, text: str
) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    assert str(await use(READ, path="a.ipynb")).startswith("     1\t")


async def test_a_notebook_is_shown_as_it_is_on_request(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(notebook())
    assert str(await use(READ, path="a.ipynb", raw=True)).startswith('     1\t{"cells"')


# ---------------------------------------------------------------- PDF


async def test_a_pdf_is_shown_as_text_by_pages(use: Use, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf("one", "two", "three"))
    assert await use(READ, path="a.pdf") == (
        "[page 1 of 3]\none\n\n[page 2 of 3]\ntwo\n\n[page 3 of 3]\nthree"
    )
    assert await use(READ, path="a.pdf", pages="2-") == (
        "[page 2 of 3]\ntwo\n\n[page 3 of 3]\nthree"
    )
    assert await use(READ, path="a.pdf", pages="2") == "[page 2 of 3]\ntwo"
    with pytest.raises(ToolFailed, match="has 3 pages; there is no page 4"):
        await use(READ, path="a.pdf", pages="4")
    with pytest.raises(InvalidArguments, match=r'pages is like "3", "3-7" or "3-"'):
        READ.check(READ.arguments(path="a.pdf", pages="0-2"))


async def test_pages_are_documents_for_a_model_that_reads_them(
    make_context: MakeContext, tmp_path: Path
) -> None:
    pypdf: Any = pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf(*(f"number {n}" for n in range(1, 31))))
    ctx = make_context(tmp_path, documents=True)

    async def read(**arguments: Any) -> tuple[str, list[tuple[str | None, str]]]:
        shown = await READ.execute(ctx, READ.arguments(path="a.pdf", **arguments))
        assert not isinstance(shown, str)
        said, *parts = shown
        assert isinstance(said, TextPart)
        pages = list[tuple[str | None, str]]()
        for part in parts:
            assert isinstance(part, MediaPart)
            assert part.data is not None
            (page,) = pypdf.PdfReader(io.BytesIO(base64.b64decode(part.data))).pages
            pages.append((part.name, page.extract_text()))
        return said.text, pages

    said, pages = await read(pages="3-4")
    assert said == "a.pdf: pages 3-4 of 30, one document each"
    assert pages == [("a, page 3.pdf", "number 3"), ("a, page 4.pdf", "number 4")]
    said, pages = await read()
    assert said == 'a.pdf: pages 1-20 of 30, one document each; use pages="21-" to read on'
    assert len(pages) == 20
    with pytest.raises(ToolFailed, match="has 30 pages; there is no page 31"):
        await read(pages="31-")


async def test_pages_that_are_too_large_for_documents_are_text(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf("one", "two"))
    ctx = make_context(tmp_path, documents=True)
    monkeypatch.setattr(pdf_pages, "DOCUMENT_BYTES_MAX", 100)
    shown = await READ.execute(ctx, READ.arguments(path="a.pdf", pages="1"))
    assert shown == "[page 1 of 2]\none"
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n" + b"garbage " * 1_000)
    with pytest.raises(ToolFailed, match=r"'a\.pdf' is a PDF that is not shown: it "):
        await READ.execute(ctx, READ.arguments(path="a.pdf"))


async def test_a_long_pdf_says_how_to_read_on(use: Use, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf(*["word " * 2_000] * 5))
    shown = str(await use(READ, path="a.pdf"))
    assert len(shown) <= READ.max_output
    assert shown.endswith('use pages="3-" to read on)')


def _bomb() -> bytes:
    """A page whose stream inflates to half a gigabyte, twice."""
    once = zlib.compress(b"\0" * (512 * 1024 * 1024), 9)
    twice = zlib.compress(once, 9)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%s\nendstream" % (
        len(twice),
        twice,
    )
    return assembled(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
            stream,
        ]
    )


@pytest.mark.parametrize("kind", ["malformed", "loop", "deep"])
async def test_a_hostile_pdf_is_an_error_of_the_tool(use: Use, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pypdf")
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>"
    data = {
        "malformed": lambda: b"%PDF-1.7\n" + b"garbage " * 1_000,
        "loop": lambda: assembled(
            [
                b"<< /Type /Catalog /Pages 2 0 R >>",
                b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>",
            ]
        ),
        "deep": lambda: assembled(
            [
                b"<< /Type /Catalog /Pages 2 0 R /X " + b"[" * 100_000 + b" >>",
                b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                page,
            ]
        ),
    }[kind]()
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(ToolFailed, match=r"'a\.pdf' is a PDF that is not shown: it "):
        await use(READ, path="a.pdf")


async def test_what_only_has_the_name_of_a_pdf_is_text(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("hello\n")
    assert await use(READ, path="a.pdf") == "     1\thello"


async def test_a_page_that_inflates_without_end_is_bounded(use: Use, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(_bomb())
    assert "(no text; it may be a picture)" in str(await use(READ, path="a.pdf"))


async def test_an_encrypted_pdf_is_told_to_be_so(use: Use, tmp_path: Path) -> None:
    pypdf: Any = pytest.importorskip("pypdf")
    (tmp_path / "plain.pdf").write_bytes(pdf("one"))
    for password in ("", "secret"):
        writer = pypdf.PdfWriter(clone_from=tmp_path / "plain.pdf")
        writer.encrypt(password, "owner", algorithm="RC4-128")
        writer.write(tmp_path / "a.pdf")
        if not password:
            assert await use(READ, path="a.pdf") == "[page 1 of 1]\none"
            continue
        with pytest.raises(ToolFailed, match="it is encrypted with a password"):
            await use(READ, path="a.pdf")


CHILD = Path(pdf_text.__file__).read_text()


@pytest.mark.parametrize(
    ("child", "said"),
    [
        pytest.param(
            CHILD.replace("from pypdf import PdfReader", "raise ImportError"),
            r"pip install 'treadle\[files\]'",
            id="without the extra",
        ),
        pytest.param("while True: pass", "it took longer than 0.5 s to read", id="endless"),
        pytest.param("import os; os.abort()", "it is broken, or takes more memory", id="dead"),
        pytest.param(
            CHILD.replace("from pypdf import PdfReader", "PdfReader = object").replace(
                "PdfReader(sys.stdin.buffer)", "bytearray(4 << 30)"
            ),
            r"it cannot be read \(MemoryError\)",
            id="memory",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no limit on memory"),
        ),
    ],
)
async def test_a_child_that_comes_to_no_end_is_an_error_of_the_tool(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: str, said: str
) -> None:
    (tmp_path / "child.py").write_text(child)
    monkeypatch.setattr(pdf_text, "__file__", str(tmp_path / "child.py"))
    if child.startswith("while"):
        monkeypatch.setattr(pdf_text, "SECONDS_MOST", 0.5)
    (tmp_path / "a.pdf").write_bytes(pdf("one"))
    with pytest.raises(ToolFailed, match=said):
        await use(READ, path="a.pdf")
