"""Cuts a script into tokens: words, operators, newlines. Here-documents are read where their line ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.phone.shell.lang.nodes import HereDocument, Incomplete, Literal, Word
from envs.phone.shell.lang.words import WordReader, make_word

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&>>|<<<|<<-|&&|\|\||;;|<<|>>|>&|<&|<>|>\||&>|[;&|()<>]")
_IO_NUMBER = re.compile(r"\d(?=[<>])")


@dataclass(slots=True)
class Token:
    """`kind` is "word", "op", "io" (the number before a redirection), "newline" or "end"."""

    kind: str
    text: str
    word: Word | None = None

    @property
    def plain(self) -> str | None:
        """The text of an unquoted word, which may be reserved; None for everything else."""
        if self.word is None or len(self.word.parts) != 1:
            return None
        part = self.word.parts[0]
        return part.text if isinstance(part, Literal) and not part.quoted else None


class Lexer:
    def __init__(self, reader: WordReader) -> None:
        self.reader = reader
        self.pending: list[HereDocument] = []

    def next(self) -> Token:
        reader = self.reader
        if blank := _BLANK.match(reader.text, reader.position):
            reader.position = blank.end()
        if comment := _COMMENT.match(reader.text, reader.position):
            reader.position = comment.end()
        start = reader.position
        if start >= len(reader.text):
            if self.pending:
                raise Incomplete(f"here document '{self.pending[0].delimiter}' unclosed")
            return Token("end", "EOF")
        if reader.text[start] == "\n":
            reader.position += 1
            self._read_documents()
            return Token("newline", "\n")
        if number := _IO_NUMBER.match(reader.text, start):
            reader.position = number.end()
            return Token("io", number[0])
        if operator := _OPERATOR.match(reader.text, start):
            reader.position = operator.end()
            return Token("op", operator[0])
        word = reader.word()
        return Token("word", reader.text[start : reader.position], word)

    def _read_documents(self) -> None:
        pending, self.pending = self.pending, []
        for document in pending:
            text = self._body(document)
            if document.raw:
                document.body = Word((Literal(text, True),), text)
                continue
            inner = WordReader(text, self.reader.substitute, self.reader.depth)
            document.body = make_word(inner.parts("", quoted=True, quotes=False))

    def _body(self, document: HereDocument) -> str:
        reader, lines = self.reader, []
        while True:
            if reader.position >= len(reader.text):
                raise Incomplete(f"here document '{document.delimiter}' unclosed")
            end = reader.text.find("\n", reader.position)
            end = len(reader.text) if end < 0 else end
            line = reader.text[reader.position : end]
            reader.position = end + 1
            if document.strip_tabs:
                line = line.lstrip("\t")
            if line == document.delimiter:
                reader.position = min(reader.position, len(reader.text))
                return "".join(f"{one}\n" for one in lines)
            lines.append(line)
