import gymnasium
import pytest

import homeostat

SINGLE = [facts.gymnasium_id for facts in homeostat.worlds() if not facts.is_shared]
SHARED = [facts.id for facts in homeostat.worlds() if facts.is_shared]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Runs go to ./runs by default: not to this project's."""
    monkeypatch.chdir(tmp_path)
    gymnasium.logger.min_level = gymnasium.logger.WARN
