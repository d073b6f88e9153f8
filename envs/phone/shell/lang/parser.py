"""Recursive-descent parser for the grammar of POSIX's shell."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from envs.phone.shell.lang import syntax
from envs.phone.shell.lang.syntax import Incomplete, Literal, Node, Script, SyntaxFault, Word
from envs.phone.shell.lang.words import NAME, WORD_ENDS, WordReader, make_word

RESERVED = frozenset("if then elif else fi for in while until do done case esac { } !".split())
_ASSIGNMENT = re.compile(rf"({NAME})(\+?)=")
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)*(?:#[^\n]*)?")
_REDIRECTION = re.compile(r"(\d?)(<<-|<<|>>|>&|<&|<|>)|()(&>)")
_OPERATOR = re.compile(r"&&|\|\||;;|[;&|()]")
MAX_CACHED = 2048
"""Length in characters of the longest script whose tree is cached."""
_READERS = frozenset(("read", "tee", "xargs", "tr"))
"""Commands that always read standard input."""
_READERS_WITHOUT_FILES = frozenset("cat sh wc sort head tail base64 md5sum sha1sum sha256sum uniq".split())


def parse(text: str) -> Script:
    """The script's lines up to its first syntax error. Never raises."""
    try:
        return _cached(text) if len(text) <= MAX_CACHED else _parsed(text)
    except RecursionError:
        return Script((), SyntaxFault("syntax error: nested too deep"))


@lru_cache(maxsize=512)
def _cached(text: str) -> Script:
    return _parsed(text)


def _parsed(text: str) -> Script:
    parser = Parser(text)
    lines: list[Node] = []
    try:
        while (line := parser.line()) is not None:
            lines.append(line)
    except SyntaxFault as fault:
        return Script(tuple(lines), fault)
    return Script(tuple(lines))


class Token(NamedTuple):
    """`kind` is "word", "op", "redirection", "newline" or "end"."""

    kind: str
    text: str
    word: Word | None = None

    @property
    def plain(self) -> str | None:
        """The text of an unquoted word, which may be reserved; None for everything else."""
        part = self.word.parts[0] if self.word and len(self.word.parts) == 1 else None
        return part.text if isinstance(part, Literal) and not part.quoted else None


class Parser(WordReader):
    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__(text, position)
        self._documents: list[syntax.HereDocument] = []
        """Here-documents whose bodies follow this line."""
        self._token: Token | None = None
        self._separated = False

    def substitution(self, position: int) -> tuple[Node, int]:
        inner = Parser(self.text, position)
        body = inner.commands(")", may_be_empty=True)
        inner.take(")")
        return body, inner.position

    # --- tokens ------------------------------------------------------------------------------------------------

    def token(self) -> Token:
        """The next token, which is not consumed."""
        if self._token is None:
            self._token = self._read_token()
        return self._token

    def next(self) -> Token:
        token = self.token()
        self._token = None
        return token

    def _read_token(self) -> Token:
        blank = _BLANK.match(self.text, self.position)
        assert blank is not None
        start = self.position = blank.end()
        if start >= len(self.text):
            if self._documents:
                raise Incomplete(f"here document '{self._documents[0].delimiter}' unclosed")
            return Token("end", "EOF")
        if self.text[start] == "\n":
            self.position += 1
            for document in self._documents:
                self._read_document(document)
            self._documents.clear()
            return Token("newline", "\n")
        for kind, pattern in (("redirection", _REDIRECTION), ("op", _OPERATOR)):
            if found := pattern.match(self.text, start):
                self.position = found.end()
                return Token(kind, found[0])
        word = make_word(self.parts(WORD_ENDS, quoted=False))
        return Token("word", self.text[start : self.position], word)

    def _read_document(self, document: syntax.HereDocument) -> None:
        lines: list[str] = []
        while self.position < len(self.text):
            line, _, _ = self.text[self.position :].partition("\n")
            self.position = min(self.position + len(line) + 1, len(self.text))
            line = line.lstrip("\t") if document.strip_tabs else line
            if line == document.delimiter:
                break
            lines.append(f"{line}\n")
        else:
            raise Incomplete(f"here document '{document.delimiter}' unclosed")
        text = "".join(lines)
        if document.raw:
            document.body = Word((Literal(text, True),), text)
        else:
            document.body = make_word(Parser(text).parts("", quoted=True, document=True))

    def at(self, *texts: str) -> bool:
        """Whether one of these operators or reserved words comes next."""
        token = self.token()
        return token.text in texts if token.kind == "op" else token.plain in texts

    def at_line_end(self) -> bool:
        return self.token().kind in ("newline", "end")

    def accept(self, *texts: str) -> bool:
        """Consumes the next token if it is one of these."""
        found = self.at(*texts)
        if found:
            self.next()
        return found

    def take(self, text: str) -> None:
        if not self.accept(text):
            raise self.unexpected()

    def unexpected(self) -> SyntaxFault:
        token = self.token()
        if token.kind == "end":
            return Incomplete("syntax error: unexpected EOF")
        shown = "newline" if token.kind == "newline" else token.text
        return SyntaxFault(f"syntax error: unexpected '{shown}'")

    def _word(self) -> Word:
        word = self.token().word
        if word is None:
            raise self.unexpected()
        self._token = None
        return word

    def skip_newlines(self) -> None:
        while self.token().kind == "newline":
            self.next()

    # --- lists -------------------------------------------------------------------------------------------------

    def line(self) -> Node | None:
        """The next complete line; None at the end."""
        self.skip_newlines()
        if self.token().kind == "end":
            return None
        commands: list[Node] = []
        while not self.at_line_end():
            commands.append(self._terminated())
            if not self.at_line_end() and not self._separated:
                raise self.unexpected()
        if self.token().kind == "newline":
            self.next()
        return _sequence(commands)

    def commands(self, *ends: str, may_be_empty: bool = False) -> Node:
        """Commands up to one of the closing words, which is not consumed."""
        commands: list[Node] = []
        self.skip_newlines()
        while not self.at(*ends):
            commands.append(self._terminated())
            separated = self._separated or self.token().kind == "newline"
            self.skip_newlines()
            if not separated and not self.at(*ends):
                raise self.unexpected()
        if not commands and not may_be_empty:
            raise self.unexpected()
        return _sequence(commands)

    def block(self, start: str, end: str) -> Node:
        """Commands between two reserved words."""
        self.take(start)
        body = self.commands(end)
        self.take(end)
        return body

    def _terminated(self) -> Node:
        """A list of commands and the `;` or `&` behind it; `_separated` says whether there was one."""
        first, rest = self._pipeline(), []
        while self.at("&&", "||"):
            op = self.next().text
            self.skip_newlines()
            rest.append((op, self._pipeline()))
        node = syntax.AndOr(first, tuple(rest)) if rest else first
        self._separated = self.at(";", "&")
        if self._separated and self.next().text == "&":
            return syntax.Subshell(node, background=True)
        return node

    def _pipeline(self) -> Node:
        negated = False
        while self.accept("!"):
            negated = not negated
        commands = [self._command()]
        while self.accept("|"):
            self.skip_newlines()
            commands.append(self._command())
        if len(commands) == 1 and not negated:
            return commands[0]
        return syntax.Pipeline(tuple(commands), negated)

    # --- commands ----------------------------------------------------------------------------------------------

    def _command(self) -> Node:
        node = self._compound()
        if node is None:
            return self._simple()
        redirects: list[syntax.Redirect] = []
        while self._redirect(redirects):
            pass
        return syntax.Redirected(node, tuple(redirects)) if redirects else node

    def _compound(self) -> Node | None:
        token = self.token()
        opener = token.text if token.kind == "op" else token.plain
        readers: dict[str, Callable[[], Node]] = {
            "(": lambda: syntax.Subshell(self.block("(", ")")),
            "{": lambda: syntax.Sequence((self.block("{", "}"),)),
            **{"if": self._if, "for": self._for, "case": self._case, "while": self._while, "until": self._while},
        }
        if opener in readers:
            return readers[opener]()
        if opener in RESERVED:
            raise self.unexpected()
        return None

    def _if(self) -> Node:
        branches = []
        while self.accept("if", "elif"):
            condition = self.commands("then")
            self.take("then")
            branches.append((condition, self.commands("fi", "elif", "else")))
        otherwise = self.commands("fi") if self.accept("else") else syntax.Sequence(())
        self.take("fi")
        return syntax.If(tuple(branches), otherwise)

    def _for(self) -> Node:
        self.next()
        if not re.fullmatch(NAME, self.token().plain or ""):
            raise self.unexpected()
        name = self.next().text
        self.skip_newlines()
        words = None
        if self.accept("in"):
            words = []
            while self.token().kind == "word":
                words.append(self._word())
            if not self.at(";") and self.token().kind != "newline":
                raise self.unexpected()
        self.accept(";")
        self.skip_newlines()
        return syntax.For(name, None if words is None else tuple(words), self.block("do", "done"))

    def _while(self) -> Node:
        until = self.next().text == "until"
        condition = self.commands("do")
        return syntax.While(condition, self.block("do", "done"), until)

    def _case(self) -> Node:
        self.next()
        subject = self._word()
        self.skip_newlines()
        self.take("in")
        items = []
        self.skip_newlines()
        while not self.at("esac"):
            self.accept("(")
            patterns = [self._word()]
            while self.accept("|"):
                patterns.append(self._word())
            self.take(")")
            items.append((tuple(patterns), self.commands("esac", ";;", may_be_empty=True)))
            self.accept(";;")
            self.skip_newlines()
        self.take("esac")
        return syntax.Case(subject, tuple(items))

    def _simple(self) -> Node:
        assignments: list[syntax.Assignment] = []
        words: list[Word] = []
        redirects: list[syntax.Redirect] = []
        while True:
            if self._redirect(redirects):
                continue
            token = self.token()
            if token.kind != "word":
                break
            word = self._word()
            assignment = as_assignment(word) if not words else None
            if assignment is not None:
                assignments.append(assignment)
                continue
            words.append(word)
            if len(words) == 1 and not assignments and not redirects and token.plain and self.accept("("):
                self.take(")")
                self.skip_newlines()
                return syntax.Function(token.text, self._command())
        if not (assignments or words or redirects):
            raise self.unexpected()
        return syntax.Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _redirect(self, redirects: list[syntax.Redirect]) -> bool:
        """Reads a redirection if one comes next."""
        found = _REDIRECTION.fullmatch(self.token().text) if self.token().kind == "redirection" else None
        if found is None:
            return False
        self.next()
        number, op = (group for group in found.groups() if group is not None)
        target = self._word()
        document = None
        if op in ("<<", "<<-"):
            quoted = any(not isinstance(p, Literal) or p.quoted for p in target.parts)
            delimiter = "".join(p.text for p in target.parts if isinstance(p, Literal))
            document = syntax.HereDocument(delimiter, op == "<<-", quoted)
            self._documents.append(document)
        redirects.append(syntax.Redirect(int(number or not op.startswith("<")), op, target, document))
        return True


def _sequence(commands: list[Node]) -> Node:
    return commands[0] if len(commands) == 1 else syntax.Sequence(tuple(commands))


def as_assignment(word: Word) -> syntax.Assignment | None:
    """`name=value` or `name+=value` with an unquoted name as an assignment; None for any other word."""
    first = word.parts[0] if word.parts else None
    if not isinstance(first, Literal) or first.quoted:
        return None
    found = _ASSIGNMENT.match(first.text)
    if found is None:
        return None
    rest = first.text[found.end() :]
    parts = [*([first._replace(text=rest)] if rest else []), *word.parts[1:]]
    return syntax.Assignment(found[1], make_word(parts), bool(found[2]))


# --- standard input ----------------------------------------------------------------------------------------------


def reads_input(script: str) -> bool:
    """Whether a command that neither a pipe nor a redirection feeds would read standard input."""
    return any(map(_reads, parse(script).lines))


def _reads(node: object) -> bool:
    if isinstance(node, syntax.Simple | syntax.Redirected) and any(r.fd == 0 for r in node.redirects):
        return False
    if isinstance(node, syntax.Pipeline):
        return _reads(node.commands[0])
    if not isinstance(node, syntax.Simple):
        return isinstance(node, tuple) and not isinstance(node, Word | syntax.Redirect) and any(map(_reads, node))
    name, *words = [word.plain for word in node.words] or [""]
    name = (name or "").rpartition("/")[2]
    return name in _READERS or name in _READERS_WITHOUT_FILES and all(w is not None and w[:1] == "-" for w in words)
