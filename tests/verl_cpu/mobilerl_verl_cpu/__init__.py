"""Lets verl 0.9.1 and vLLM's CPU wheel run without a GPU, for the tests alone.

`tests/install_verl_cpu.sh` writes a `.pth` file that calls `install` at the start of every Python process of a virtual
environment: driver, Ray workers and vLLM's engine processes. verl and vLLM are as published unless MOBILERL_VERL_CPU=1.

`hooks` says what is changed, `platform` is verl's view of a CPU, `launch` starts Ray, `nodes` several nodes of it,
`flags` are the recipe's settings, and `session` exercises our engine. Drivers, Ray's workers and vLLM's engines are
forks of a process that has done `imports` (tests/prepared.py), unless a test starts them by itself. The folder `alias`
holds an empty distribution called `vllm`, which verl asks for.
"""

from mobilerl_verl_cpu.hooks import install

__all__ = ["install"]
