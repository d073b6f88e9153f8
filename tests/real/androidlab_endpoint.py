"""An OpenAI-compatible server with a model that plays by a plan, and one that judges answers."""

from __future__ import annotations

import json
import re
from collections import Counter

from http_stand_in import ChatServer, text_of

AGENT, JUDGE = "agent", "judge"


class Endpoint(ChatServer):
    """`plans` has for a part of a goal the labels to tap and the answer to finish with. An answer that holds the right
    one is right; `judged` lists what was asked."""

    def __init__(self, plans):
        self.plans, self.tapped = plans, Counter()
        self.judged = []
        super().__init__(self.respond, (AGENT, JUDGE))

    def respond(self, request):
        texts = [text_of(message) for message in request["messages"]]
        return self.judge(texts) if request["model"] == JUDGE else self.play(texts)

    def play(self, texts):
        goal = next((goal for goal in self.plans if len(texts) > 1 and goal in texts[1]), None)
        if goal is None:
            return "yes"
        labels, answer = self.plans[goal]
        if self.tapped[goal] == len(labels):
            return f'<think>done</think><answer>finish(message="{answer}")</answer>'
        label = labels[self.tapped[goal]]
        line = next(line for line in texts[-1].splitlines() if f";{label};" in line and "click" in line)
        self.tapped[goal] += 1
        return f'<think>{label}</think><answer>do(action="Tap", element={line.rpartition(";")[2]})</answer>'

    def judge(self, texts):
        answer, truth = (
            json.loads(re.search(rf"^{name}: (.*)$", texts[0], re.M)[1]) for name in ("Answer", "Reference answer")
        )
        self.judged.append((answer, truth))
        return f"[{truth in answer}]"
