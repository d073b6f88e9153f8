"""Plays recorded actions in the Gymnasium environment of the package `miniwob`, with its own Selenium, and prints the
raw rewards. Runs in an environment of its own, on the JSON of `test_miniwob.py`.
"""

import json
import sys

import gymnasium
import miniwob
from miniwob.action import ActionTypes
from miniwob.reward import get_raw_reward

LONGEST_MS = 1_000_000_000


def play(env, seed, actions):
    """The reward of an episode, 0 while it has not ended."""
    env.reset(seed=seed)
    reward = 0.0
    for kind, *what in actions:
        if kind == "tap":
            action = env.unwrapped.create_action(ActionTypes.CLICK_COORDS, coords=what)
        else:
            action = env.unwrapped.create_action(ActionTypes.TYPE_TEXT, text=what[0])
        _, reward, done, _, _ = env.step(action)
        if done:
            break
    return reward


def main():
    gymnasium.register_envs(miniwob)
    rewards = []
    for task, episodes in json.load(sys.stdin).items():
        env = gymnasium.make(f"miniwob/{task}-v1", reward_processor=get_raw_reward, wait_ms=150)
        env.reset(seed=0)
        env.unwrapped.instance.driver.execute_script(f"core.EPISODE_MAX_TIME = {LONGEST_MS};")
        rewards += [[task, seed, play(env, seed, actions)] for seed, actions in episodes]
        env.close()
    json.dump(rewards, sys.stdout)


main()
