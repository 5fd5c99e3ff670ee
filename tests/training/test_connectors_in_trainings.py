"""Connectors in front of the network of a training: the learner sees what the runner has acted on."""

from __future__ import annotations

import json

import pytest

from episodia.connectors import ConnectorV2, FlattenObservations, FrameStacking, MeanStdFilter, defaults
from episodia.training import Setup, Training, resume, train
from episodia.training.training import share_statistics

SMALL = {"num_envs": 2, "num_timesteps": 50, "num_epochs": 1, "hidden": (8,), "learning_rate": 0.01}


def training_with(*pieces, **options):
    return Training.of(Setup.of("ppo", "CartPole-v1", connectors=pieces, **{**SMALL, **options}))


@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_the_policy_that_is_updated_is_the_one_that_has_acted(recurrent):
    """With other statistics in the learner than in the runner, ratios would not be 1 before the first gradient step."""
    with training_with(MeanStdFilter(), recurrent=recurrent) as training:
        records = [training.step() for _ in range(4)]

        assert training.runner.env_to_module["MeanStdFilter"].version == 4
        assert training.learner.pipeline["MeanStdFilter"].version == 3
    assert [record["kl"] for record in records] == pytest.approx([0.0] * 4, abs=1e-7)
    assert [record["clip_fraction"] for record in records] == [0.0] * 4


def test_networks_fit_what_the_pieces_make_of_observations():
    with training_with(FrameStacking(num_frames=3), FlattenObservations()) as training:
        assert training.runner.module.observation_space.shape == (12,)
        assert training.step()["kl"] == pytest.approx(0.0, abs=1e-7)


def test_pieces_of_a_setup_are_not_those_of_its_trainings():
    piece = MeanStdFilter()
    setup = Setup.of("ppo", "CartPole-v1", connectors=[piece], **SMALL)
    with Training.of(setup) as training:
        training.step()

    assert piece.version == 0


def test_a_run_with_a_filter_resumes_exactly(tmp_path):
    def timeless(history):
        return [
            {name: value for name, value in one.items() if name not in ("time_s", "steps_per_s")} for one in history
        ]

    options = {**SMALL, "progress": False, "connectors": [MeanStdFilter(clip_by_value=5.0)]}
    with train("ppo", "CartPole-v1", steps=300, checkpoint_every=150, out=tmp_path / "whole", **options) as whole:
        train("ppo", "CartPole-v1", steps=150, out=tmp_path / "parts", **options).close()
        with resume(tmp_path / "parts", steps=300, checkpoint_every=150, progress=False) as resumed:
            assert timeless(resumed.history) == timeless(whole.history)
            assert resumed.evaluate(3) == whole.evaluate(3)


def test_connectors_of_a_setup_survive_being_plain_data():
    setup = Setup.of("ppo", "CartPole-v1", connectors=[FrameStacking(num_frames=2), MeanStdFilter(clip_by_value=3.0)])

    again = Setup.from_dict(json.loads(json.dumps(setup.to_dict())))

    assert again.to_dict() == setup.to_dict()
    assert [type(piece) for piece in again.connectors] == [FrameStacking, MeanStdFilter]
    assert again.connectors[1].clip_by_value == 3.0


def test_pieces_that_only_one_side_has_are_left_alone():
    acting, learning = defaults.env_to_module(custom=[MeanStdFilter()]), defaults.learner()
    share_statistics(acting, learning)
    other = defaults.learner(custom=[MeanStdFilter(name="mine")])
    acting["MeanStdFilter"].commit()
    share_statistics(acting, other)

    assert other["mine"].version == 0


class CountCalls(ConnectorV2):
    """Has a state and collects no statistics."""

    reads, writes, lookback, is_stateful = frozenset(), frozenset(), 0, True
    calls = 0

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        self.calls += 1
        return batch

    def get_state(self, components=None, **kwargs):
        return {"calls": self.calls}

    def set_state(self, state):
        self.calls = state["calls"]


def test_a_state_without_statistics_stays_on_its_side():
    acting, learning = (make(custom=[CountCalls()]) for make in (defaults.env_to_module, defaults.learner))
    acting["CountCalls"].calls, learning["CountCalls"].calls = 7, 2

    share_statistics(acting, learning)

    assert learning["CountCalls"].calls == 2
