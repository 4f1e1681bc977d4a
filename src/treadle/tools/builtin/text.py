"""Decoding of file contents: encoding, line ends, or binary.

See also: opening files (folder.py, files.py). Entry points: `Encoding.of`, `TextDocument`.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import msgspec

from treadle.messages.images import image_type as image_type

SNIFF_BYTES = 4096
_BOMS = (  # UTF-32 first, since one of its marks begins with that of UTF-16 LE
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32 with a byte order mark"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32 with a byte order mark"),
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16 with a byte order mark"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16 with a byte order mark"),
)
_BINARIES = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or a docx, xlsx, jar or wheel)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x00asm", "a WebAssembly module"),
    (b"RIFF", "a RIFF file (sound or video)"),
    (b"OggS", "Ogg sound or video"),
)
_TEXT_CONTROLS = b"\t\n\r\f\b\x1b"
_CONTROLS = bytes(c for c in (*range(32), 127) if c not in _TEXT_CONTROLS)


class Encoding(msgspec.Struct, frozen=True):
    codec: str
    label: str
    bom: bytes = b""

    @classmethod
    def of(cls, data: bytes, *, whole: bool = True) -> Encoding:
        """Detect the encoding: by byte order mark, else UTF-8 if valid, else Latin-1, in which
        every byte is a character. `whole`: True if `data` is the complete file.
        """
        for bom, codec, label in _BOMS:
            if data.startswith(bom):
                return cls(codec, label, bom)
        try:
            codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
        except UnicodeDecodeError:
            return LATIN_1
        return UTF_8

    @property
    def is_wide(self) -> bool:
        """True if a byte 10 is not always a line break."""
        return self.codec.startswith(("utf-16", "utf-32"))

    @property
    def is_guess(self) -> bool:
        return self.codec == "latin-1"

    def can_encode(self, text: str) -> bool:
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        return True

    def decode(self, data: bytes) -> str:
        """Decode without the byte order mark. Raises UnicodeDecodeError."""
        return data[len(self.bom) :].decode(self.codec)

    def encode(self, text: str) -> bytes:
        """Encode with the byte order mark. Raises UnicodeEncodeError."""
        return self.bom + text.encode(self.codec)


UTF_8 = Encoding("utf-8", "UTF-8")
LATIN_1 = Encoding("latin-1", "not UTF-8, taken as Latin-1")


def binary_kind(head: bytes) -> str | None:
    """Return the type of binary data if the first 4 KiB are not text: a NUL, or more than 30 %
    control characters.
    """
    head = head[:SNIFF_BYTES]
    if any(head.startswith(bom) for bom, *_ in _BOMS):
        return None
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if b"\x00" not in head and controls <= 0.3 * len(head):
        return "a PDF document" if head.startswith(b"%PDF-") else None
    return next((kind for magic, kind in _BINARIES if head.startswith(magic)), "binary data")


def to_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def is_crlf_throughout(text: str) -> bool:
    breaks = text.count("\n")
    return breaks > 0 and text.count("\r\n") == breaks


class TextDocument:
    """Text with line feeds, which restores each line's original end when rendered."""

    def __init__(self, text: str) -> None:
        self.text = to_line_feeds(text)
        breaks, returns = text.count("\n"), text.count("\r\n")
        self._new_return = returns * 2 > breaks
        self._returns: bytearray | None = None
        """For each line break, in order, whether it has a carriage return. None if all are
        the
        same.
        """
        if 0 < returns < breaks:
            self._returns = bytearray(line.endswith("\r") for line in text.split("\n")[:-1])

    def replace(self, spans: Sequence[tuple[int, int]], new: str) -> None:
        """Replace each `text[start:end]`, in ascending order, with `new`.

        Line breaks keep their kind if their number does not change.
        """
        pieces: list[str] = []
        returns = bytearray()
        at = broken = 0
        for start, end in spans:
            pieces += (self.text[at:start], new)
            if self._returns is not None:
                kept, was, now = (
                    self.text.count("\n", at, start),
                    self.text.count("\n", start, end),
                    new.count("\n"),
                )
                inside = self._returns[broken + kept : broken + kept + was]
                returns += self._returns[broken : broken + kept] + (
                    inside if was == now else bytes([self._new_return]) * now
                )
                broken += kept + was
            at = end
        pieces.append(self.text[at:])
        if self._returns is not None:
            self._returns = returns + self._returns[broken:]
        self.text = "".join(pieces)

    def render(self) -> str:
        if self._returns is None:
            return self.text.replace("\n", "\r\n") if self._new_return else self.text
        lines = self.text.split("\n")
        return (
            "".join(
                line + ("\r\n" if cr else "\n")
                for line, cr in zip(lines, self._returns, strict=False)
            )
            + lines[-1]
        )
