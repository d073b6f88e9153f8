"""Runs judges of an AndroidLab checkout in a separate process, because they are code of the checkout.

Uses only the standard library, for any Python from 3.9 with the packages that the checkout imports. Reads one JSON
request from standard input and writes one JSON answer to standard output:

    {"checkout": PATH, "check": {MODULE: [TASK_ID, ...]}}
        -> {"problem": TEXT, "asking": [TASK_ID, ...]}
    {"checkout": PATH, "module": MODULE, "task_id": ID, "steps": [LINE, ...],
     "answers": [[QUESTION, ANSWER, TRUTH, BOOL], ...]}
        -> {"final": {...} | null, "judged": [INDEX, ...], "errors": [[INDEX, TEXT], ...], "asked": [[...], ...]}

A judge that asks whether an answer is right gets the verdict from `answers`. A question without one is listed in
`asked`, and answered with no for now.
"""

import importlib
import inspect
import json
import os
import sys
import types

TASK_MODULE = "evaluation.task"
ASK = "detect_answer"
CHECK = "check_answer"
"""The method inherited by every judge, which calls `detect_answer`."""


def check(request):
    """Finds the first judge that cannot be used, and otherwise the judges that ask whether an answer is right."""
    asking = []
    for module, task_ids in request["check"].items():
        try:
            judges = _judges(module)
        except Exception as error:
            return {"problem": "cannot import " + module + ": " + _line(error)}
        for task_id in task_ids:
            cls = judges.get(task_id)
            problem = _problem(cls)
            if problem:
                return {"problem": module + ".function_map: the judge of " + task_id + " " + problem}
            if _may_ask(cls):
                asking.append(task_id)
    return {"problem": "", "asking": asking}


def _problem(cls):
    if cls is None:
        return "is missing"
    if not callable(getattr(cls, "judge", None)):
        return "has no method judge(xml_tree, line)"
    try:
        _make(cls)
    except Exception as error:
        return "cannot be made: " + _line(error)
    return ""


def _may_ask(cls):
    """Whether a method refers to `check_answer`, which asks, or asks itself."""
    methods = [f.__code__ for c in cls.__mro__ for f in vars(c).values() if inspect.isfunction(f)]
    return any(CHECK in m.co_names or (ASK in m.co_names and m.co_name != CHECK) for m in methods)


def run(request):
    """Runs a task's judge over all steps. The last step whose page is to be judged decides."""
    judge = _make(_judges(request["module"])[request["task_id"]])
    asked = _answer_from(request["answers"])
    takes_path = len(inspect.signature(judge.judge).parameters) > 2
    final, judged, errors = None, [], []
    for i, line in enumerate(request["steps"]):
        try:
            tree = sys.modules[TASK_MODULE].dump_xml(line["xml"])
            arguments = (tree, line, line["xml"]) if takes_path else (tree, line)
            result = judge.judge(*arguments)
        except Exception as error:  # AndroidLab skips such a step, too
            errors.append([i, _line(error)])
            continue
        judged.append(i)
        if not isinstance(result, dict):
            errors.append([i, "judge() returned " + type(result).__name__ + " and not a dict"])
        elif result.get("judge_page", True):
            final = {str(key): value == True for key, value in result.items() if key == "complete"} | {  # noqa: E712
                str(key): bool(value) for key, value in result.items() if key not in ("complete", "judge_page")
            }
    return {"final": final, "judged": judged, "errors": errors, "asked": asked}


def _judges(module):
    return importlib.import_module(module).function_map


def _make(cls):
    """Judges take a key or the settings of the answer judge; they get empty ones, which they must not use."""
    return cls(types.SimpleNamespace(judge_model="", api_key="", api_base=""))


def _answer_from(answers):
    known = {tuple(question): verdict for *question, verdict in answers}
    asked = []

    def detect_answer(question, model_answer, standard_answer, *_, **__):
        key = (str(question), str(model_answer), str(standard_answer))
        if key not in known and list(key) not in asked:
            asked.append(list(key))
        return known.get(key, False)

    for name, module in list(sys.modules.items()):
        if name.startswith("evaluation") and hasattr(module, ASK):
            setattr(module, ASK, detect_answer)
    return asked


def _line(error):
    return " ".join((type(error).__name__ + ": " + str(error)).split())[:300]


def main():
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keeps output of the checkout out of the answer
    request = json.load(sys.stdin)
    sys.path[0] = request["checkout"]  # replaces this program's folder
    json.dump(check(request) if "check" in request else run(request), answer)
    answer.flush()
    os._exit(0)  # does not wait for threads and exit handlers of the checkout


if __name__ == "__main__":
    main()
