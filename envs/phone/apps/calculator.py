"""Calculator: four operations with the usual precedence, and a history of results."""

from __future__ import annotations

import random
from decimal import Decimal, DivisionByZero, InvalidOperation, localcontext
from functools import partial

from mobilerl.envs.phone.app import App, Page
from mobilerl.envs.phone.ui import LOW_SCREEN, Node, Screen
from mobilerl.envs.phone.widgets import button, icon_button, item, key_row, label, spacer

KEYS = (("C", "Del"), ("7", "8", "9", "÷"), ("4", "5", "6", "×"), ("1", "2", "3", "-"), ("0", ".", "=", "+"))
OPERATORS = ("+", "-", "×", "÷")
MAX_LENGTH = 24
DIGITS = 10
"""Significant digits of a result."""


class CalculationError(ValueError):
    """An expression that has no value; the message is what the display shows."""


def evaluate(expression: str) -> str:
    """The value of numbers and `OPERATORS` separated by spaces, e.g. `2 + 3 × 4` gives `14`.

    Raises CalculationError for an incomplete expression or a division by zero.
    """
    words = expression.split(" ")
    with localcontext() as context:
        context.prec = DIGITS
        try:
            terms = [Decimal(words[0])]
            for operator, word in zip(words[1::2], words[2::2], strict=True):
                value = Decimal(word)
                match operator:
                    case "×":
                        terms[-1] *= value
                    case "÷":
                        terms[-1] /= value
                    case _:
                        terms.append(value if operator == "+" else -value)
            total = sum(terms, Decimal(0))
        except DivisionByZero:
            raise CalculationError("Cannot divide by zero") from None
        except (InvalidOperation, ValueError):
            raise CalculationError("Error") from None
        return f"{total.normalize() + 0:f}"


def press(text: str, key: str) -> str:
    """The display after `key` (any but `=`) is pressed while it shows `text`."""
    if key == "C":
        return ""
    if key == "Del":
        return text[:-3] if text.endswith(" ") else text[:-1]
    if len(text) >= MAX_LENGTH:
        return text
    if key in OPERATORS:
        if text in ("", "-"):
            return "-" if key == "-" else text
        return f"{text[:-3] if text.endswith(' ') else text} {key} "
    number = text.rpartition(" ")[2]
    if key == ".":
        return text if "." in number else text + ("." if number.strip("-") else "0.")
    return text[:-1] + key if number == "0" else text + key


class Calculator(App):
    """The main page's `text` argument is the expression; `fresh` says that it is a result, which a digit replaces."""

    package = "com.android.calculator2"
    label = "Calculator"
    authority = "calculator"
    icon = "calculator"
    color = "#455A64"
    tables = {"history": {"expression": "", "result": ""}}

    def populate(self, rng: random.Random) -> None:
        for _ in range(3):
            expression = f"{rng.randint(11, 49)} {rng.choice('+-')} {rng.randint(2, 10)}"
            self.insert("history", expression=expression, result=evaluate(expression))

    def page_main(self, page: Page) -> Screen:
        # Numbers stand on the right of every phone, so what is mirrored begins on the left.
        side = "left" if self.phone.language.rtl else "right"
        display = label(self._show(page.args.get("text") or "0"), size=40, align=side, rid=f"{self.package}:id/result")
        tall = self.phone.size_dp[1] >= LOW_SCREEN
        keys = [key_row([self._key(page, k) for k in row], height=76 if tall else 50) for row in KEYS]
        body = [spacer(88 if tall else 0), display, spacer(84 if tall else 0), *keys]
        history = icon_button("clock", self.t("History"), lambda: self.go("history"))
        return Screen(self.t("Calculator"), body, [history], lead=3)

    def _show(self, text: str) -> str:
        """An expression as it is displayed, with the language's decimal separator."""
        return self.phone.language.number(text)

    def _key(self, page: Page, key: str) -> Node:
        shown = self.t(key) if key.isalpha() else self._show(key)
        node = button(shown, partial(self._press, page, key), filled=key in (*OPERATORS, "="))
        node.size, node.bold = 22, False
        if node.look == "text_button":
            node.look = "key"
        return node

    def page_history(self, page: Page) -> Screen:
        rows = [
            item(self._show(h["result"]), self._show(h["expression"]), on_tap=partial(self._reuse, h["result"]))
            for h in self.db["history"]
        ]
        clear = icon_button("trash", self.t("Clear history"), lambda: self.db["history"].clear())
        return Screen(self.t("History"), rows[::-1] or [label(self.t("No history"))], [clear], on_up=self.up)

    def _press(self, page: Page, key: str) -> None:
        text = page.args.get("text", "")
        if key == "=":
            self._finish(page, text)
            return
        if page.args.pop("fresh", False) and key not in (*OPERATORS, "Del"):
            text = ""
        page.args["text"] = press(text, key)

    def _finish(self, page: Page, text: str) -> None:
        if " " not in text:
            return
        try:
            result = evaluate(text)
        except CalculationError as error:
            self.toast(self.t(str(error)))
            return
        self.insert("history", expression=text, result=result)
        page.args.update(text=result, fresh=True)

    def _reuse(self, result: str) -> None:
        self.up()
        self.page.args.update(text=result, fresh=True)
