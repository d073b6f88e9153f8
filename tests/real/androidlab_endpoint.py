"""An OpenAI-compatible server with a model that plays by a plan, and one that judges answers."""

from __future__ import annotations

import json
import re
from collections import Counter

from http_stand_in import Handler, Server, completion

AGENT, JUDGE = "agent", "judge"


class Endpoint:
    """`plans` has for a part of a goal the labels to tap and the answer to finish with. An answer that holds the right
    one is right; `judged` lists what was asked."""

    def __init__(self, plans):
        endpoint, self.plans, self.tapped = self, plans, Counter()
        self.judged = []

        class Connection(Handler):
            def do_GET(self):
                self.reply({"object": "list", "data": [{"id": AGENT}, {"id": JUDGE}]})

            def do_POST(self):
                asked = self.body()
                said = endpoint.judge if asked["model"] == JUDGE else endpoint.play
                self.reply(completion(said([text_of(message) for message in asked["messages"]]), asked["model"]))

        self.server = Server(Connection)
        self.url = f"{self.server.url}/v1"

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


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
