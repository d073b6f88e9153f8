"""Doors to other libraries. Each module needs the one it is named after and nothing imports it but its user.

    gym_env             Gymnasium: a phone and its tasks as a `gymnasium.Env`
    openenv_env         OpenEnv: the same behind an OpenEnv server, for clients in other processes
    verifiers_env       verifiers: the tasks as a taskset, our episode loop as a harness
    hf_dataset          datasets: a run's trajectories as a Hugging Face dataset, and back

docs/adapters.md says what each of them does not carry.
"""
