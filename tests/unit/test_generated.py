"""Generated apps and tasks: experts, checks, shortest plans, splits and phrasings."""

import asyncio
import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.envs.base import Finish, Home, Task
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.generated import everyday, goals, phrasing, search, tasks
from mobilerl.envs.phone.generated.app import app_class
from mobilerl.envs.phone.tasks.base import INFEASIBLE
from mobilerl.envs.phone.tasks.expert import ExpertAgent

APPS = 64
PARTS = [("train", ""), *((split, part) for split in ("dev", "test") for part in tasks.HELD_OUT)]


def play(task: Task, act) -> tuple[float, int]:
    """Reward and steps of an episode; `act(env, observation)` gives the next action."""

    async def run() -> tuple[float, int]:
        env = PhoneEnv(screenshots=False)
        observation, done, steps = await env.reset(task), False, 0
        while not done:
            result = await env.step(act(env, observation))
            observation, done, steps = result.observation, result.done, steps + 1
        return await env.score(), steps

    return asyncio.run(run())


def expert():
    agents: dict[int, ExpertAgent] = {}
    return lambda env, observation: agents.setdefault(id(env), ExpertAgent(env.template)).act(observation)


@pytest.mark.parametrize("template", tasks.TEMPLATES)
@pytest.mark.parametrize(("split", "part"), PARTS)
def test_experts_succeed_within_the_budget_and_idle_agents_do_not(template, split, part):
    task = tasks.make_task(template, 3, APPS, split, part)
    assert task == tasks.make_task(template, 3, APPS, split, part)
    reward, steps = play(task, expert())
    planned = (task.max_steps - tasks.STEPS_BEYOND) // 2
    assert reward == 1.0 and planned <= steps <= planned + 1, "a row at the edge of the screen may take another swipe"
    assert play(task, lambda env, observation: Home())[0] == 0.0
    for message in ("", "done") if template == "missing" else ("", "done", INFEASIBLE):
        assert play(task, lambda env, observation, message=message: Finish(message))[0] == 0.0


def test_the_expert_says_what_every_step_is_for():
    """In the order of the changes; to the end of an app's visit the last one."""
    for seed in range(3):
        task = tasks.make_task("three-changes", seed, APPS)
        told: list[str] = []
        agent = expert()

        def act(env, observation, told=told, agent=agent):
            action = agent(env, observation)
            told.append(env.template.purpose)
            return action

        assert play(task, act)[0] == 1.0
        said = list(dict.fromkeys(told))
        assert len(said) == 3 and told == sorted(told, key=said.index)
        for purpose, op in zip(said, task.params["ops"], strict=True):
            title = goals.wording(op, goals.fresh_app(op["app"], task.params["phone"]))["title"]
            assert title in purpose and title in task.instruction


def test_wordings_are_those_of_training_tasks():
    """Goals without screens are of the same apps, pairs, phrasings and instances as the tasks of training."""
    made = list(tasks.wordings(200, APPS, random.Random(0)))
    held_out = {t.instruction for t in tasks.held_out_tasks(30, APPS, "test", templates=("delete", "toggle"))}
    assert len({goal for goal, _ in made}) > 190 and not held_out & {goal for goal, _ in made}
    assert {len(purposes) for _, purposes in made} == {1, 2, 3}
    for goal, purposes in made:
        for word in " ".join(purposes).split():
            said = word.strip(",").casefold()
            assert said in goal.casefold() or said in VERBS | UNSAID, (goal, purposes)


VERBS = set("new change turn on off delete read find count carry to infeasible".split())
UNSAID = {kind.split()[1].casefold() for kind in everyday.SAID}
"""Fields that some wordings do not name."""


def test_whoever_changes_more_than_was_asked_fails():
    task = tasks.make_task("edit", 5, APPS)

    act = expert()

    def careless(env, observation):
        action = act(env, observation)
        if isinstance(action, Finish):
            app = env.template.apps[task.params["apps"][0]].spec
            row = env._admin.rows(f"{app.authority}/t0")[-1]["_id"]
            env._admin.delete(f"{app.authority}/t0", row)
        return action

    assert play(task, careless)[0] == 0.0


def any_way(app, aim, texts, most: int) -> int:
    """Moves of a shortest way, by a search that leaves nothing out but typing other texts."""
    app.start()
    first = search._State([search._copy(p) for p in app.stack], search.copy_rows(app.db))
    wanted = aim.stages[-1] if aim.stages else search.copy_rows(app.db)
    free = type("Free", (), {"touch": lambda self, node: True, "texts": lambda self, app, page: iter(texts)})()
    queue, known = deque([first]), {first.key}
    while queue:
        state = queue.popleft()
        tree = search._show(app, state)
        if search._same(state.db, wanted) and aim.seen(tree):
            return len(state.path)
        live = search._Live(app)
        for move, act in search._moves(app, tree, free):
            act()
            if app.stack:
                after = search._State(
                    [search._copy(p) for p in app.stack], search.copy_rows(app.db), (*state.path, move)
                )
                if after.key not in known and len(after.path) <= most:
                    known.add(after.key)
                    queue.append(after)
            live.restore(app)
    raise AssertionError("no way")


@pytest.mark.slow
def test_plans_are_shortest():
    """Against a search without any of the rules that keep the planner fast."""
    compared = 0
    for template in ("delete", "toggle", "edit", "read"):
        for seed in range(12):
            task = tasks.make_task(template, seed, APPS)
            op, phone_seed = task.params["ops"][0], task.params["phone"]
            moves = goals.visits([op], phone_seed)[0].moves
            if len(moves) > 4:
                continue
            app = goals.fresh_app(op["app"], phone_seed)
            stages = () if template == "read" else (goals.apply(op, app.db),)
            aim = search.Aim(stages, seen=lambda tree, app=app, op=op: goals._shows(app, op, tree))
            texts = [str(v) for v in op.get("values", {}).values()]
            assert any_way(app, aim, texts, len(moves)) == len(moves), task.instruction
            compared += 1
    assert compared >= 20


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(tasks.TEMPLATES), st.integers(0, 10_000), st.sampled_from(PARTS))
def test_a_held_out_task_is_held_out_in_its_part_alone(template, seed, place):
    split, part = place
    task = tasks.make_task(template, seed, APPS, split, part)
    ops = task.params["ops"]
    assert tasks.split_of("instance", ops) == split
    assert tasks.split_of("app", ops[0]["app"]) == (split if part == "apps" else "train")
    assert {tasks.pair_split(op) for op in ops} == {split if part == "pairs" else "train"}
    assert tasks.is_held_out(task) == (split != "train")


def test_the_guard_finds_what_leaks():
    train = tasks.train_tasks(1, APPS)
    held_out = tasks.held_out_tasks(1, APPS, "test")
    tasks.check_no_leak(train, held_out)
    with pytest.raises(ValueError, match="held out"):
        tasks.check_no_leak([*train, held_out[0]], [])
    with pytest.raises(ValueError, match="goal"):
        tasks.check_no_leak(train, [train[0]])


def test_there_are_twenty_phrasings_of_everything_and_some_are_held_out():
    for kind in phrasing.FORMS:
        assert len(phrasing.phrases(kind)) >= 20, kind
        splits = tasks.phrase_splits(kind).values()
        assert {"train", "dev", "test"} == set(splits)


def test_goals_name_apps_and_rows_in_several_ways_but_purposes_in_one():
    """ "in the calendar", "on my phone", "the Warm Saddle", "Budget.pdf in Downloads"."""
    apps, phones, articles, places = 0, 0, 0, 0
    for seed in range(300):
        task = tasks.make_task("read", seed, 512)
        (op,), goal = task.params["ops"], task.instruction
        (purpose,) = tasks.open_task(task).purposes()
        app = goals.fresh_app(op["app"], task.params["phone"])
        row = goals.row_of(op, app)
        title, label = row["title"], app.label
        known = [str(row[c.key]) for c in goals.table_of(op).columns if c.name in phrasing.PLACES]
        assert title in goal and f"{title} " in purpose and f"the {title}" not in purpose
        assert not any(f"{title} in {place}" in purpose for place in known)
        apps += any(
            f"{words} {label.lower()}" in goal.lower() and label not in goal for words in ("in the", "open the")
        )
        phones += any(f"on {whose} phone" in goal.lower() for whose in ("this", "my"))
        articles += f" the {title}" in goal
        places += any(f"{title} in {place}" in goal for place in known)
    assert min(apps, phones, articles, places) >= 3, (apps, phones, articles, places)


def test_apps_differ_and_every_design_choice_occurs():
    specs = [app_class(number).spec for number in range(200)]
    for name in ("main", "add", "opened", "edit", "actions", "flags", "save", "search", "confirm", "order"):
        assert len({getattr(s.design, name) for s in specs}) >= 2, name
    assert len({s.label for s in specs}) > 120
    assert {len(s.tables) for s in specs} == {1, 2}
    kinds = {c.kind for s in specs for t in s.tables for c in t.columns}
    assert kinds == {"text", "number", "flag", "choice", "date"}


def test_a_phone_holds_the_generated_apps_alone_until_its_next_reset():
    from mobilerl.envs.phone.apps.catalogue import APPS as OWN
    from mobilerl.envs.phone.phone import Phone
    from mobilerl.envs.phone.transport import InProcessTransport

    phone = Phone(OWN)
    transport = InProcessTransport(phone, "p")
    assert transport.shell(("sim", "reset", "--seed", "1", "--apps", "3,8")).exit_code == 0
    assert [a.label for a in phone.apps.values()] == ["Home", app_class(3).label, app_class(8).label]
    assert transport.shell(("sim", "reset", "--seed", "1")).exit_code == 0
    assert len(phone.apps) == len(OWN)
