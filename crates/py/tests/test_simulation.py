"""Simulations, reports and callbacks."""

import json

import homeostat
import pytest

SMALL = dict(duration_s=100, faas={"functions": 3}, progress=False)


def test_a_simulation_has_the_figures_of_the_command_line():
    run = homeostat.simulate("hpa+vpa", seeds=[1, 2, 3], **SMALL)
    assert run.path.name == "sim-hpa+vpa" and run.summary["seeds"] == 3
    assert 0.0 <= run.summary["slo_violation_ratio"] <= 1.0
    assert run.summary["slo_violation_ratio_interval"] is not None
    assert [outcome["seed"] for outcome in run.outcomes] == [1, 2, 3]
    again = homeostat.simulate("hpa+vpa", seeds=[1, 2, 3], threads=1, run_dir="again", **SMALL)
    assert again.outcomes == run.outcomes
    assert (again.path / "windows.jsonl").read_bytes() == (run.path / "windows.jsonl").read_bytes()
    other = homeostat.simulate("none", seeds=[1, 2, 3], **SMALL)
    assert homeostat.compare(run, other)[1]["policy"] == "none"
    page = homeostat.report(run, other, path="page.html", title="Two <policies>")
    assert "<h1>Two &lt;policies&gt;</h1>" in page.read_text(encoding="utf-8")
    pytest.importorskip("pandas")
    assert len(run.frame()) == 9


def test_a_policy_that_was_learnt_is_simulated():
    run = homeostat.train("ppo", env="faas/function-v2", steps=100, log_every=50, progress=False)
    played = homeostat.simulate(run, seeds=4, **SMALL)
    assert json.loads((played.path / "run.json").read_text())["policy_file"] == str(run.path)
    told = []
    homeostat.simulate("kpa", duration_s=100, faas={"functions": 3}, progress=told.append)
    assert told[-1]["windows"] <= told[-1]["of"] == 30


def test_impossible_simulations_are_refused_with_the_reason():
    def refused(match, *names, error=ValueError, **keywords):
        with pytest.raises(error, match=match):
            homeostat.simulate(*names, **{"progress": False, **keywords})

    refused("did you mean `hpa`", "hpaa")
    refused("simulator", "hpa", "fass")
    refused("seeds must be an integer or a sequence", "hpa", error=TypeError, seeds=None)
    refused("at least one seed", "hpa", seeds=[])
    refused("is not a whole number of windows", "hpa", duration_s=5)
    refused("nodes is of a trace", "hpa", nodes=3)
    refused("functions", "hpa", faas={"functions": 0})
    with pytest.raises(ValueError, match="at least one run"):
        homeostat.report()
    with pytest.raises(ValueError, match="nowhere is not a run directory"):
        homeostat.report("nowhere")


def test_a_callback_sees_every_round_and_ends_the_run():
    rounds = []

    def stop(told):
        rounds.append(told)
        return len(rounds) < 3

    run = homeostat.train(
        "ppo", env="faas/function-v2", steps=100_000_000, log_every=100, agents=2,
        progress=False, callback=stop,
    )
    # A round ends with a whole step of all copies of the environment.
    assert [told["step"] // 100 for told in rounds] == [1, 2, 3]
    assert run.summary["status"] == "interrupted"
    assert {agent["agent"] for agent in rounds[0]["agents"]} == {0, 1}
    assert 0.0 <= rounds[0]["slo_violation_ratio"] <= 1.0 and rounds[0]["containers"] > 0.0
    everything = []
    homeostat.train(
        "ppo", env="toy/identity-v1", steps=4096, log_every=1024, progress=False,
        callback=everything.append,
    )
    assert [told["step"] for told in everything] == [1024, 2048, 3072, 4096]
    assert everything[-1]["slo_violation_ratio"] is None

    def fail(told):
        raise RuntimeError("seen enough")

    with pytest.raises(RuntimeError, match="seen enough"):
        homeostat.train("ppo", env="toy/identity-v1", progress=False, callback=fail)
    with pytest.raises(TypeError, match="callback must be a function"):
        homeostat.train("ppo", env="toy/identity-v1", progress=False, callback=3)


def test_a_setting_without_its_section_and_a_count_as_a_float():
    with pytest.raises(ValueError, match=r"cannot use keyword clip: .* write ppo=\{'clip': 0.1\}"):
        homeostat.train("ppo", clip=0.1)
    with pytest.raises(ValueError, match=r"write .*faas=\{'cores_per_node': 5\}"):
        homeostat.simulate("hpa", cores_per_node=5)
    run = homeostat.train("q-learning", env="toy/identity-v1", steps=1e3, progress=False)
    assert run.summary["steps"] >= 1000
    with pytest.raises((TypeError, ValueError), match="steps"):
        homeostat.train("ppo", steps=1.5)
