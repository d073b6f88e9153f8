"""Recursive-descent parser: the grammar of mksh, without `[[`, coprocesses, `select` and `time`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from envs.phone.shell.lang import nodes
from envs.phone.shell.lang.nodes import Incomplete, Literal, Node, Script, SyntaxFault, Word
from envs.phone.shell.lang.words import NAME, Reader, Token, make_word

RESERVED = frozenset("if then elif else fi for in while until do done case esac function { } !".split())
_REDIRECTIONS = frozenset("< > >> >| <> <& >& &> &>> << <<- <<<".split())
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
MAX_CACHED = 2048
"""Characters of scripts whose trees are kept for the next time."""


def parse(text: str) -> Script:
    """The script's lines up to its first fault. Never raises."""
    return _cached(text) if len(text) <= MAX_CACHED else _parsed(text)


@lru_cache(maxsize=512)
def _cached(text: str) -> Script:
    return _parsed(text)


def _parsed(text: str) -> Script:
    parser = Parser(Reader(text, _substitution))
    lines: list[Node] = []
    try:
        while (line := parser.line()) is not None:
            lines.append(line)
    except SyntaxFault as fault:
        return Script(tuple(lines), fault)
    return Script(tuple(lines))


def _substitution(reader: Reader) -> Script:
    parser = Parser(reader)
    body = parser.commands(")", "(", may_be_empty=True)
    parser.take(")")
    return Script((body,) if body else ())


class Parser:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._documents: list[nodes.HereDocument] = []
        """Here-documents whose bodies follow this line."""
        self._token: Token | None = None
        self._open: list[str] = []
        """The compound commands that are not closed yet."""
        self._separated = False

    # --- tokens ------------------------------------------------------------------------------------------------

    def peek(self) -> Token:
        if self._token is None:
            self._token = self._reader.token(self._documents)
        return self._token

    def next(self) -> Token:
        token = self.peek()
        self._token = None
        return token

    def at(self, *texts: str) -> bool:
        """Whether an operator or a reserved word of these comes next."""
        token = self.peek()
        return token.text in texts if token.kind == "op" else token.plain in texts

    def accept(self, *texts: str) -> bool:
        """Takes what comes next if it is one of these."""
        found = self.at(*texts)
        if found:
            self.next()
        return found

    def take(self, text: str) -> None:
        if not self.accept(text):
            raise self.unexpected()

    def unexpected(self) -> SyntaxFault:
        token = self.peek()
        if token.kind == "end":
            what = f"unmatched '{self._open[-1]}'" if self._open else "unexpected EOF"
            return Incomplete(f"syntax error: {what}")
        shown = "newline" if token.kind == "newline" else token.text
        return SyntaxFault(f"syntax error: unexpected '{shown}'")

    def _word(self) -> Word:
        word = self.peek().word
        if word is None:
            raise self.unexpected()
        self.next()
        return word

    def _name(self) -> str:
        if not NAME.fullmatch(self.peek().plain or ""):
            raise self.unexpected()
        return self.next().text

    def skip_newlines(self) -> None:
        while self.peek().kind == "newline":
            self.next()

    @contextmanager
    def nested(self, opener: str) -> Iterator[None]:
        """Inside of a compound command, which a missing end is blamed on."""
        self._open.append(opener)
        self._reader.deeper()
        yield
        self._open.pop()
        self._reader.deeper(-1)

    # --- lists -------------------------------------------------------------------------------------------------

    def line(self) -> Node | None:
        """The next complete line; None at the end."""
        self.skip_newlines()
        if self.peek().kind == "end":
            return None
        commands: list[Node] = []
        while self.peek().kind not in ("newline", "end"):
            commands.append(self._terminated())
            if self.peek().kind not in ("newline", "end") and not self._separated:
                raise self.unexpected()
        if self.peek().kind == "newline":
            self.next()
        return _sequence(commands)

    def commands(self, end: str, opener: str, *ends: str, may_be_empty: bool = False) -> Node | None:
        """Commands up to one of the closing words, which is left."""
        ends = (end, *ends)
        commands: list[Node] = []
        with self.nested(opener):
            self.skip_newlines()
            while not self.at(*ends):
                commands.append(self._terminated())
                separated = self._separated or self.peek().kind == "newline"
                self.skip_newlines()
                if not separated and not self.at(*ends):
                    raise self.unexpected()
            if not commands and not may_be_empty:
                raise self.unexpected()
        return _sequence(commands) if commands else None

    def _body(self, end: str, opener: str, *ends: str) -> Node:
        body = self.commands(end, opener, *ends)
        assert body is not None
        return body

    def _terminated(self) -> Node:
        """A list of commands with the `;` or `&` behind it; `_separated` says whether there was one."""
        first, rest = self._pipeline(), []
        while self.at("&&", "||"):
            op = self.next().text
            self.skip_newlines()
            rest.append((op, self._pipeline()))
        node = nodes.AndOr(first, tuple(rest)) if rest else first
        self._separated = self.at(";", "&")
        if self._separated and self.next().text == "&":
            return nodes.Subshell(node, background=True)
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
        return nodes.Pipeline(tuple(commands), negated)

    # --- commands ----------------------------------------------------------------------------------------------

    def _command(self) -> Node:
        self._reader.deeper()
        compound = self._compound()
        if compound is None:
            node = self._simple()
        elif isinstance(compound, nodes.Function):
            node = compound
        else:
            redirects: list[nodes.Redirect] = []
            while self._redirect(redirects):
                pass
            node = nodes.Redirected(compound, tuple(redirects)) if redirects else compound
        self._reader.deeper(-1)
        return node

    def _compound(self) -> Node | None:
        token = self.peek()
        opener = token.text if token.kind == "op" else token.plain
        if opener == "(":
            return self._parenthesis()
        read = {
            **{"{": self._group, "if": self._if, "for": self._for, "case": self._case, "function": self._function},
            **dict.fromkeys(("while", "until"), self._while),
        }.get(opener or "")
        if read is not None:
            self.next()
            return read(opener)
        if opener in RESERVED:
            raise self.unexpected()
        return None

    def _parenthesis(self) -> Node:
        self.next()
        reader = self._reader
        if reader.peek() == "(":
            start = reader.position
            reader.position += 1
            expression = reader.arithmetic()
            if expression is not None:
                return nodes.Calculation(expression)
            reader.position = start
        body = self._body(")", "(")
        self.take(")")
        return nodes.Subshell(body)

    def _group(self, opener: str) -> Node:
        body = self._body("}", "{")
        self.take("}")
        return body if isinstance(body, nodes.Sequence) else nodes.Sequence((body,))

    def _if(self, opener: str) -> Node:
        branches = []
        while True:
            condition = self._body("then", "if")
            self.take("then")
            branches.append((condition, self._body("fi", "then", "elif", "else")))
            if not self.accept("elif"):
                break
        otherwise = self._body("fi", "else") if self.accept("else") else None
        self.take("fi")
        return nodes.If(tuple(branches), otherwise)

    def _for(self, opener: str) -> Node:
        name = self._name()
        self.skip_newlines()
        words = None
        if self.accept("in"):
            words = []
            while self.peek().kind == "word":
                words.append(self._word())
            if not self.at(";") and self.peek().kind != "newline":
                raise self.unexpected()
        self.accept(";")
        self.skip_newlines()
        return nodes.For(name, None if words is None else tuple(words), self._loop_body("for"))

    def _while(self, opener: str) -> Node:
        condition = self._body("do", opener)
        return nodes.While(condition, self._loop_body(opener), opener == "until")

    def _loop_body(self, opener: str) -> Node:
        self.take("do")
        body = self._body("done", "do")
        self.take("done")
        return body

    def _case(self, opener: str) -> Node:
        subject = self._word()
        self.skip_newlines()
        self.take("in")
        items = []
        self._open.append("case")
        self.skip_newlines()
        while not self.at("esac"):
            self.accept("(")
            patterns = [self._word()]
            while self.accept("|"):
                patterns.append(self._word())
            self.take(")")
            items.append((tuple(patterns), self.commands("esac", "case", ";;", may_be_empty=True)))
            self.accept(";;")
            self.skip_newlines()
        self._open.pop()
        self.take("esac")
        return nodes.Case(subject, tuple(items))

    # --- functions and simple commands -------------------------------------------------------------------------

    def _function(self, opener: str) -> Node:
        name = self._name()
        if self.accept("("):
            self.take(")")
        self.skip_newlines()
        return nodes.Function(name, self._command())

    def _simple(self) -> Node:
        assignments: list[nodes.Assignment] = []
        words: list[Word] = []
        redirects: list[nodes.Redirect] = []
        while True:
            if self._redirect(redirects):
                continue
            token = self.peek()
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
                return nodes.Function(token.text, self._command())
        if not (assignments or words or redirects):
            raise self.unexpected()
        return nodes.Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _redirect(self, redirects: list[nodes.Redirect]) -> bool:
        """Reads a redirection if one comes next."""
        token = self.peek()
        if token.kind != "io" and not (token.kind == "op" and token.text in _REDIRECTIONS):
            return False
        fd = int(self.next().text) if token.kind == "io" else None
        op = self.next().text
        if op not in _REDIRECTIONS:
            raise self.unexpected()
        fd = int(not op.startswith("<")) if fd is None else fd
        target = self.peek().word
        document = None
        if op in ("<<", "<<-") and target is not None:
            quoted = any(not isinstance(p, Literal) or p.quoted for p in target.parts)
            delimiter = "".join(p.text for p in target.parts if isinstance(p, Literal))
            document = nodes.HereDocument(delimiter, op == "<<-", quoted)
            self._documents.append(document)
        redirects.append(nodes.Redirect(fd, op, self._word(), document))
        return True


def _sequence(commands: list[Node]) -> Node:
    return commands[0] if len(commands) == 1 else nodes.Sequence(tuple(commands))


def as_assignment(word: Word) -> nodes.Assignment | None:
    """`name=value` or `name+=value` with an unquoted name, taken apart."""
    first = word.parts[0] if word.parts else None
    if not isinstance(first, Literal) or first.quoted:
        return None
    found = _ASSIGNMENT.match(first.text)
    if found is None:
        return None
    rest = first.text[found.end() :]
    parts = [*([first._replace(text=rest)] if rest else []), *word.parts[1:]]
    return nodes.Assignment(found[1], make_word(parts), bool(found[2]))
