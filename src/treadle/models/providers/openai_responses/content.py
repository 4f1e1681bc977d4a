"""Text, images and documents as content of input items of the Responses API. Entry points:
`media_content`, `text_content`, `compact_content`, `unsent`.

messages.py encodes the items. Source: as there.
"""

from __future__ import annotations

from treadle.messages.message import MediaPart
from treadle.models.providers.encoding import UNSENT, Json, described, text_in

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


_DOCUMENTS = {
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}
"""Extensions for unnamed files. The API identifies document types by them."""


def text_content(text: str) -> Json:
    return {"type": "input_text", "text": text}


def compact_content(content: list[Json]) -> object:
    """Return a single text as a string, because some servers do not accept a list."""
    if not content:
        return ""
    return (
        content[0]["text"] if len(content) == 1 and content[0]["type"] == "input_text" else content
    )


def unsent(part: MediaPart) -> str:
    """Return advice about a part that the API does not accept; "" for others."""
    kind = part.media_type
    accepted = kind in _IMAGES or kind in _DOCUMENTS or text_in(part) is not None
    return "" if accepted else UNSENT


def media_content(part: MediaPart) -> Json:
    kind = part.media_type
    if kind in _IMAGES:
        return {
            "type": "input_image",
            "detail": "auto",
            "image_url": part.url if part.url is not None else _data_url(part),
        }
    if kind in _DOCUMENTS:
        if part.url is not None:
            return {"type": "input_file", "file_url": part.url}
        return {
            "type": "input_file",
            "filename": part.name or f"file.{_DOCUMENTS[kind]}",
            "file_data": _data_url(part),
        }
    if (text := text_in(part)) is not None:
        return text_content(f"{part.name}:\n{text}" if part.name else text)
    return text_content(described(part))


def _data_url(part: MediaPart) -> str:
    return f"data:{part.media_type};base64,{part.data}"
