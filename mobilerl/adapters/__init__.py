"""Adapters to other libraries. Each module needs the library that it is named after; import it directly.

    gym_env             Gymnasium: a phone and its tasks as a `gymnasium.Env`
    openenv_env         OpenEnv: the same on an OpenEnv server, for clients in other processes
    verifiers_env       verifiers: the tasks as a taskset, MobileRL's episode loop as a harness
    hf_dataset          datasets: a run's trajectories as a Hugging Face dataset, and back

docs/python.md lists the limits of each.
"""
