"""Recursive-descent parser that reads words and grammar in one pass over a script."""

from __future__ import annotations

import re

from mobilerl.envs.phone.shell.lang import syntax
from mobilerl.envs.phone.shell.lang.syntax import Literal, Node, Part, Sequence, SyntaxFault, Word

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_UNSUPPORTED = "for while until do done case esac function select".split()
"""Keywords of compound commands that the phone's shell does not support."""
_RESERVED = "|".join(map(re.escape, [*_UNSUPPORTED, *"if then elif else fi { } !".split()]))
_WORD_ENDS = " \t\r\n;&|<>()"
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)*(?:#[^\n]*)?")
_TOKEN = re.compile(rf"&&|\|\||[;&|()\n]|(?:{_RESERVED})(?=[\s;&|<>()]|\Z)")
"""Operators and reserved words."""
_REDIRECTION = re.compile(r"(\d?)(>>|>&|<&|<(?!<)|>)")
_ASSIGNMENT = re.compile(rf"({NAME})=")
_PLAIN = re.compile(r"""[^ \t\r\n;&|<>()"'}$`\\]+""")
_PLAIN_QUOTED = re.compile(r'[^"}$`\\]+')
_PARAMETER = re.compile(rf"{NAME}|[?$!#@*0-9]")
_BRACED = re.compile(rf"\$\{{({NAME}|[?$!#@*0-9])\}}")
_BACKTICKS = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)


def parse(text: str) -> Node:
    """Parses a script. Raises `SyntaxFault` if it is invalid, in which case nothing of it runs."""
    try:
        parser = Parser(text)
        body = parser.commands()
        if parser.peek() or parser.at < len(text):
            raise parser.unexpected()
        return body
    except RecursionError:
        raise SyntaxFault("syntax error: nested too deep") from None


class Parser:
    """A position in a script, and methods that read what follows."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    # --- tokens ------------------------------------------------------------------------------------------------

    def peek(self) -> str:
        """The next operator or reserved word; "" before any other word and at the end."""
        blank = _BLANK.match(self.text, self.at)
        assert blank is not None
        self.at = blank.end()
        found = _TOKEN.match(self.text, self.at)
        return found[0] if found else ""

    def accept(self, *tokens: str) -> str:
        """Consumes the next token if it is one of these; otherwise returns ""."""
        token = self.peek()
        if token not in tokens:
            return ""
        self.at += len(token)
        return token

    def take(self, token: str) -> None:
        if not self.accept(token):
            raise self.unexpected()

    def unexpected(self) -> SyntaxFault:
        token = self.peek()
        if self.at >= len(self.text):
            return SyntaxFault("syntax error: unexpected EOF")
        shown = "newline" if token == "\n" else token or self.text[self.at :].split()[0][:40]
        return SyntaxFault(f"syntax error: unexpected '{shown}'")

    def _skip_newlines(self) -> None:
        while self.accept("\n"):
            pass

    # --- commands ----------------------------------------------------------------------------------------------

    def commands(self, *ends: str) -> Sequence:
        """Reads commands up to one of the tokens, which is not consumed, or up to the end."""
        found: list[Node] = []
        while True:
            self._skip_newlines()
            if self.peek() in ends or self.at >= len(self.text):
                return Sequence(tuple(found))
            node = self._list()
            separator = self.accept(";", "&", "\n")
            found.append(syntax.Subshell(node) if separator == "&" else node)
            if not separator:
                return Sequence(tuple(found))

    def _block(self, *ends: str) -> Sequence:
        """Reads commands up to one of the tokens; there must be at least one."""
        body = self.commands(*ends)
        if not body.commands or self.peek() not in ends:
            raise self.unexpected()
        return body

    def _list(self) -> Node:
        left = self._pipeline()
        while op := self.accept("&&", "||"):
            self._skip_newlines()
            left = syntax.AndOr(left, "&&" if op == "&&" else "||", self._pipeline())
        return left

    def _pipeline(self) -> Node:
        negated = False
        while self.accept("!"):
            negated = not negated
        commands = [self._command()]
        while self.accept("|"):
            self._skip_newlines()
            commands.append(self._command())
        return syntax.Pipeline(tuple(commands), negated) if len(commands) > 1 or negated else commands[0]

    def _command(self) -> Node:
        node: Node
        match self.accept("(", "{", "if"):
            case "(":
                node = syntax.Subshell(self._block(")"))
                self.take(")")
            case "{":
                node = self._block("}")
                self.take("}")
            case "if":
                node = self._if()
            case _:
                return self._simple()
        redirects: list[syntax.Redirect] = []
        while self._redirect(redirects):
            pass
        return syntax.Redirected(node, tuple(redirects)) if redirects else node

    def _if(self) -> Node:
        branches: list[tuple[Node | None, Node]] = []
        keyword = "if"
        while keyword != "fi":
            condition = None
            if keyword != "else":
                condition = self._block("then")
                self.take("then")
            branches.append((condition, self._block("fi") if keyword == "else" else self._block("elif", "else", "fi")))
            keyword = self.accept("elif", "else", "fi")
        return syntax.If(tuple(branches))

    def _simple(self) -> Node:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[syntax.Redirect] = []
        is_reserved = self.peek().isalpha() or self.peek() == "}"
        while not is_reserved:
            if self._redirect(redirects):
                continue
            word = self._word()
            if not word:
                break
            first = word[0]
            named = _ASSIGNMENT.match(first.text) if isinstance(first, Literal) and not first.quoted else None
            if named and not words:
                rest = first.text[named.end() :]  # type: ignore[union-attr]
                assignments.append((named[1], (Literal(rest), *word[1:])))
            else:
                words.append(word)
        if not (assignments or words or redirects):
            raise self.unexpected()
        return syntax.Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _redirect(self, redirects: list[syntax.Redirect]) -> bool:
        """Reads a redirection, if there is one."""
        self.peek()
        found = _REDIRECTION.match(self.text, self.at)
        if found is None:
            return False
        self.at = found.end()
        target = self._word()
        if not target:
            raise self.unexpected()
        number, op = found.groups()
        redirects.append(syntax.Redirect(int(number or op[0] == ">"), op, target))
        return True

    # --- words -------------------------------------------------------------------------------------------------

    def _word(self) -> Word:
        """The next word; () before an operator, a newline or the end."""
        self.peek()
        return self._parts(_WORD_ENDS, quoted=False)

    def _parts(self, ends: str, quoted: bool) -> Word:
        """Reads parts up to a character of `ends`, which is not consumed. `quoted` means inside double quotes."""
        parts: list[Part] = []
        while self.at < len(self.text) and (char := self.text[self.at]) not in ends:
            parts += self._part(char, quoted)
        if self.at >= len(self.text) and ends is not _WORD_ENDS:
            raise SyntaxFault("no closing quote")
        return tuple(parts)

    def _part(self, char: str, quoted: bool) -> Word:
        """Reads the next piece of a word, which starts with `char`."""
        if char == "\\":
            return self._escape(quoted)
        if char == "'" and not quoted:
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise SyntaxFault("no closing quote")
            start, self.at = self.at + 1, end + 1
            return (Literal(self.text[start:end], True),)
        if char == '"':
            self.at += 1
            parts = self._parts('"', quoted=True)
            self.at += 1
            return (Literal("", True), *parts)
        if char == "$":
            return (self._dollar(quoted),)
        if char == "`":
            return (self._backticks(quoted),)
        run = (_PLAIN_QUOTED if quoted else _PLAIN).match(self.text, self.at)
        self.at = run.end() if run else self.at + 1
        return (Literal(run[0] if run else char, quoted),)

    def _escape(self, quoted: bool) -> Word:
        char = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if char == "\n":
            return ()
        kept = "\\" if not char or quoted and char not in '$`\\"' else ""
        return (Literal(kept + char, True),)

    def _dollar(self, quoted: bool) -> Part:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "{":
            return self._read_braced(quoted)
        if self.text.startswith("$((", self.at):
            raise SyntaxFault("syntax error: no arithmetic here")
        if following == "(":
            self.at += 2
            body = self.commands(")")
            self.take(")")
            return syntax.Substitution(body, quoted)
        self.at += 1
        if name := _PARAMETER.match(self.text, self.at):
            self.at = name.end()
            return syntax.Parameter(name[0], quoted)
        return Literal("$", quoted)

    def _read_braced(self, quoted: bool) -> Part:
        """Reads `${name}`."""
        found = _BRACED.match(self.text, self.at)
        if found is None:
            end = self.text.find("}", self.at) + 1
            if not end:
                raise SyntaxFault("no closing quote")
            raise SyntaxFault(f"{self.text[self.at : end][:80]}: bad substitution")
        self.at = found.end()
        return syntax.Parameter(found[1], quoted)

    def _backticks(self, quoted: bool) -> Part:
        found = _BACKTICKS.match(self.text, self.at)
        if found is None:
            raise SyntaxFault("no closing quote")
        self.at = found.end()
        return syntax.Substitution(parse(re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", found[1])), quoted)
