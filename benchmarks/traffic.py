"""Requests that are in flight all the time, for measuring what a sampler does to those who ask it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import cycle

from mobilerl.engines.base import EngineError, Request
from mobilerl.records import Completion

WAIT_S = 600.0
"""For the answers that a stage of the measurement waits for."""



@dataclass(frozen=True, slots=True)
class Answer:
    """When it was asked for and given, in seconds of one clock."""

    asked: float
    given: float
    request: Request
    completion: Completion

    @property
    def seconds(self) -> float:
        return self.given - self.asked


class Traffic:
    """Keeps `count` requests in flight, and at the end waits for them. One that was lost has no successor."""

    def __init__(self, submit: Callable[[Request], Future[Completion]], requests: Iterable[Request], count: int):
        self.answers: list[Answer] = []
        self.lost: list[BaseException] = []
        self.in_flight = count
        self._submit, self._requests = submit, cycle(requests)
        self._done: queue.Queue[tuple[float, float, Request, Future[Completion]]] = queue.Queue()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="requests", daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending = True
        self._thread.join()

    def wait(self, enough: Callable[[Sequence[Answer]], bool]) -> None:
        """Until the answers are enough. EngineError when none comes any more."""
        until = time.monotonic() + WAIT_S
        while not enough(self.answers):
            if not self._thread.is_alive() or time.monotonic() > until:
                reason = f"; the first of {len(self.lost)} errors: {self.lost[0]}" if self.lost else ""
                raise EngineError(f"vLLM gave {len(self.answers)} answers and no more{reason}")
            time.sleep(0.01)

    def _run(self) -> None:
        for _ in range(self.in_flight):
            self._ask()
        while self.in_flight:
            asked, given, request, future = self._done.get()
            if (error := future.exception()) is not None:
                self.lost.append(error)
            else:
                self.answers.append(Answer(asked, given, request, future.result()))
            if error is not None or self._ending:
                self.in_flight -= 1
            else:
                self._ask()

    def _ask(self) -> None:
        request, asked = next(self._requests), time.perf_counter()
        try:
            future = self._submit(request)
        except EngineError as error:
            future = Future()
            future.set_exception(error)
        future.add_done_callback(lambda f: self._done.put((asked, time.perf_counter(), request, f)))
