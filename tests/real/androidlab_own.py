"""What AndroidLab itself says. Run in the folder of its checkout, by a Python that has what the checkout imports.

    python androidlab_own.py tasks                         its tasks, by its own loader
    python androidlab_own.py trees DUMP...                 UI dumps, compressed as its judges read them
    python androidlab_own.py scores TRACES OUT CONFIG...   its scores of traces in its own layout, for these task files

One line of JSON, the last one of the output. An answer counts as right when it holds the right one.
"""

import argparse
import json
import os
import sys

sys.path[0] = os.getcwd()


def tasks():
    from evaluation.configs import AppConfig
    from templates.packages import find_package

    for file in sorted(os.listdir("evaluation/config")):
        config = AppConfig("evaluation/config/" + file)
        for task_id, text in config.task_name.items():
            command = config.command_per_step.get(task_id) or ""
            yield [task_id, config.APP, find_package(config.APP), text.strip(), command, config.metrics_type[task_id]]


def trees(*paths):
    from evaluation.task import dump_xml

    return [dump_xml(path) for path in paths]


def scores(traces, out, *configs):
    import evaluation.task
    import generate_result

    evaluation.task.detect_answer = lambda question, answer, truth, args: truth in answer
    generate_result.evaluate_input_dir(traces, configs, "now", argparse.Namespace(output_folder=out))
    with open(os.path.join(out, os.path.basename(traces) + "_now", "results.jsonl")) as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    said = {"tasks": tasks, "trees": trees, "scores": scores}[sys.argv[1]](*sys.argv[2:])
    print("\n" + json.dumps(list(said)))
