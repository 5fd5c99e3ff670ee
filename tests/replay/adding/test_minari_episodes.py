"""Episodes of Minari data sets are read as they were recorded; files that point elsewhere are rejected."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from episodia.errors import MissingExtraError, ReplayError
from episodia.replay import ReplayBuffer, minari_episodes

SPACE = spaces.Dict({"camera": spaces.Box(0, 255, (2, 2), np.uint8), "speed": spaces.Box(-9.0, 9.0, (1,), np.float64)})


def recorded(number, steps=3, **fields):
    """Return an episode as minari does."""
    return SimpleNamespace(
        **{
            "id": number,
            "observations": {
                "camera": np.full((steps + 1, 2, 2), number, np.uint8),
                "speed": np.arange(steps + 1.0)[:, None],
            },
            "actions": np.arange(steps) % 2,
            "rewards": np.arange(steps) / 4,
            "terminations": np.arange(steps) == (steps - 1 if number % 2 else -1),
            "truncations": np.arange(steps) == (-1 if number % 2 else steps - 1),
            "infos": {"lives": np.arange(steps + 1), "deep": {"x": np.ones(steps + 1)}},
            **fields,
        }
    )


class Recorded:
    """A data set that minari could have read."""

    observation_space, action_space, id = SPACE, spaces.Discrete(2), "tests/walk-v0"

    def __init__(self, *episodes):
        self.episodes = episodes

    def iterate_episodes(self, numbers):
        return (episode for episode in self.episodes if numbers is None or episode.id in numbers)


def check(episode, number, steps=3):
    assert len(episode) == steps
    assert episode.get_observations(-1)["camera"].tolist() == [[number] * 2] * 2
    assert episode.get_observations(1)["speed"].tolist() == [1.0]
    assert list(episode.get_rewards()) == [0.0, 0.25, 0.5][:steps]
    assert (episode.is_terminated, episode.is_truncated) == (number % 2 == 1, number % 2 == 0)
    assert episode.id_ == f"tests/walk-v0-{number}"


def test_episodes_are_read_as_they_were_recorded():
    found = list(minari_episodes(Recorded(recorded(0), recorded(1))))

    for number, episode in enumerate(found):
        check(episode, number)
    assert found[0].get_infos(2) == {"lives": 2, "deep": {"x": 1.0}}
    assert found[0].observation_space == SPACE


def test_some_episodes_are_read_by_their_numbers():
    dataset = Recorded(*map(recorded, range(5)))

    assert [episode.id_[-1] for episode in minari_episodes(dataset, episodes=[1, 3])] == ["1", "3"]


def test_a_buffer_takes_the_episodes_as_they_come():
    buffer = ReplayBuffer(100, seed=0)
    added = buffer.add(minari_episodes(Recorded(*map(recorded, range(4)))))

    assert added.num_steps == buffer.num_steps == 12
    assert len(buffer.episodes()) == 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"terminations": np.array([True, False, True])}, "an end before the last"),
        ({"terminations": np.zeros(2, bool)}, "The episode is cut"),
        ({"actions": np.zeros(2, np.int64)}, "actions: found 2 items"),
        ({"observations": {"camera": np.zeros((3, 2, 2), np.uint8), "speed": np.zeros((3, 1))}}, "found 3 items"),
    ],
)
def test_cut_episodes_are_rejected(fields, words):
    with pytest.raises(ReplayError, match=words):
        list(minari_episodes(Recorded(recorded(1, **fields))))


def test_an_episode_that_is_shorter_than_its_data_set_says_is_rejected():
    dataset = Recorded(recorded(1))
    dataset.storage = SimpleNamespace(get_episode_metadata=lambda numbers: [{"total_steps": 4} for _ in numbers])
    with pytest.raises(ReplayError, match=r"found 3 rewards .* expected 4"):
        list(minari_episodes(dataset))


@pytest.mark.parametrize("missing", ["minari", "h5py"])
def test_the_error_without_a_package_names_the_extra(missing, monkeypatch, tmp_path):
    (tmp_path / "main_data.hdf5").touch()
    dataset = Recorded(recorded(0))
    dataset.storage = SimpleNamespace(data_path=tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=rf"{missing} is not installed, .*episodia\[minari\]"):
        next(minari_episodes("tests/walk-v0" if missing == "minari" else dataset))


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Return a small data set that minari has written."""
    minari = pytest.importorskip("minari", reason="minari is not installed")
    pytest.importorskip("h5py", reason="h5py is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffers = []
    for number in range(3):
        data = vars(recorded(number))
        data.pop("id")
        observations = data.pop("observations")
        infos = {"lives": data.pop("infos")["lives"].tolist()}
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations={key: list(rows) for key, rows in observations.items()},
                infos=infos,
                **{key: list(rows) for key, rows in data.items()},
            )
        )
    minari.create_dataset_from_buffers(
        "tests/walk-v0", buffers, observation_space=SPACE, action_space=spaces.Discrete(2), jpeg_encoding=False
    )
    return minari.load_dataset("tests/walk-v0")


@pytest.mark.filterwarnings("ignore")
def test_a_data_set_that_minari_has_written_is_read(dataset):
    for number, episode in enumerate(minari_episodes("tests/walk-v0")):
        check(episode, number)
        assert episode.get_infos(1)["lives"] == 1
    assert len(list(minari_episodes(dataset))) == 3
    with pytest.raises(ReplayError, match="found no data set 'tests/other-v0'"):
        next(minari_episodes("tests/other-v0"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["external storage", "external link", "soft link"])
def test_s7_a_data_set_that_points_to_other_files_is_rejected(dataset, tmp_path, kind):
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret").write_bytes(bytes(24))
    with h5py.File(dataset.storage.data_path / "main_data.hdf5", "a") as file:
        episode = file["episode_0"]
        del episode["rewards"]
        if kind == "external storage":
            episode.create_dataset("rewards", (3,), "f8", external=[(str(tmp_path / "secret"), 0, 24)])
        elif kind == "external link":
            episode["rewards"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/x")
        else:
            episode["rewards"] = h5py.SoftLink("/episode_1/rewards")
    with pytest.raises(ReplayError, match="Do not use this data set"):
        next(minari_episodes(dataset))
