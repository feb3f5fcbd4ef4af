"""Work in parallel processes, forked from this one, so that tasks need not be sent to them."""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from . import result_file, temporary_files

SILENT = 2.0  # seconds without a line on progress
ALL: tuple[Callable[[Any], Any], Sequence[Any]] = (lambda task: task, ())


def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The number of each task and its result, in the order in which they end. Raises what the
    function raises."""
    global ALL
    ALL = function, tasks
    count = min(len(os.sched_getaffinity(0)), len(tasks))
    if not count:
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, context, initializer=begin) as pool:
        numbers = {pool.submit(one, number): number for number in range(len(tasks))}
        try:
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def begin() -> None:
    temporary_files.FILES.clear()  # they are the parent's
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    multiprocessing.parent_process().join()
    temporary_files.remove_all()
    os._exit(1)


def one(number: int) -> Any:  # noqa: ANN401
    function, tasks = ALL
    try:
        return function(tasks[number])
    finally:
        temporary_files.remove_all()  # a worker ends without atexit
        result_file.decompress.cache_clear()


@dataclass
class Progress:
    """Lines on stderr, once the work has taken two seconds."""

    begun: float = field(default_factory=time.monotonic)

    def line(self, words: str) -> None:
        if time.monotonic() - self.begun > SILENT:
            print(f"analysis: {words}", file=sys.stderr, flush=True)
