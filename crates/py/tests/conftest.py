import threading
import time

import gymnasium
import pytest

import homeostat

SINGLE = [facts.gymnasium_id for facts in homeostat.environments() if not facts.is_shared]
SHARED = [facts.id for facts in homeostat.environments() if facts.is_shared]


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path, monkeypatch):
    """Runs go to ./runs by default: not to this project's."""
    monkeypatch.chdir(tmp_path)
    gymnasium.logger.min_level = gymnasium.logger.WARN


def counted_meanwhile(work):
    """How often another thread counted while ``work`` ran, and how long that took in seconds."""
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began, before = time.monotonic(), counted[0]
    work()
    took, meanwhile = time.monotonic() - began, counted[0] - before
    stop.set()
    thread.join()
    return meanwhile, took
