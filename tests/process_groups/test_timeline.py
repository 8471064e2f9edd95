"""One timeline of all ranks: a lane for each, on one clock, and who waited for whom."""

import pytest
import torch
import torch.distributed as dist

from utils.observe import plots
from utils.observe.trace import record
from utils.ranks import RankError, ranks

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torchrun")]


def uneven():
    """Rank 1 multiplies four times as long as the others, then all add up; rank 0 sends rank 2 what it has."""
    rank = dist.get_rank()
    x = torch.ones(1024, 1024, device=f"simgpu:{rank}")
    with record(all_ranks=True) as timeline:
        for _ in range(8 if rank == 1 else 2):
            y = x @ x
        dist.all_reduce(y)
        if rank == 0:
            dist.send(y, 2)
        elif rank == 2:
            dist.recv(y, 0)
    return {
        "devices": list(timeline.devices),
        "source": timeline.source,
        "meetings": [[m.name, m.last, m.waited] for m in timeline.meetings()],
        "busy": [timeline.busy(device) for device in timeline.devices],
        "waits": [timeline.waits(device) for device in timeline.devices],
        "waited for": timeline.waited_for().to_dict("index"),
        "words": plots.timeline(timeline).alt,
    }


@pytest.fixture(scope="module")
def told():
    return ranks(3).run(uneven)


def test_rank_0_has_a_lane_for_each_rank_and_the_others_have_their_own(told):
    assert told[0]["devices"] == ["rank 0", "rank 1", "rank 2"]
    assert told[0]["source"].startswith("simulated: ")
    assert told[0]["source"].endswith("; 3 ranks")
    assert told[1]["devices"] == ["simgpu:0", "simgpu:1", "simgpu:2"]
    assert told[0]["busy"] == [told[0]["busy"][2], told[1]["busy"][1], told[2]["busy"][2]]
    assert told[0]["busy"][1] == pytest.approx(4 * told[0]["busy"][0])


def test_a_collective_says_who_came_last_and_how_long_the_others_waited_for_it(told):
    (add_up, last, waited), (message, _, ends) = told[0]["meetings"]
    assert (add_up, last) == ("all_reduce", "rank 1")
    # Six of the slow rank's eight products, and nothing else: the launches run ahead on all of them.
    expected = told[0]["busy"][1] - told[0]["busy"][0]
    assert waited == pytest.approx({"rank 0": expected, "rank 1": 0, "rank 2": expected}, rel=0.01)
    assert message == "recv and send"
    assert set(ends) == {"rank 0", "rank 2"}
    assert told[0]["waited for"]["rank 0"]["rank 1"] == pytest.approx(expected * 1e3, rel=0.01)
    assert told[0]["waited for"]["rank 1"] == {"rank 0": 0, "rank 1": 0, "rank 2": 0}


def test_idle_times_have_communication_as_a_cause(told):
    for busy, waits in zip(told[0]["busy"], told[0]["waits"], strict=True):
        assert waits["communication"] > 0
        assert sum(waits.values()) + busy == pytest.approx(sum(told[0]["waits"][0].values()) + told[0]["busy"][0])
    assert told[0]["waits"][0]["communication"] > told[0]["waits"][1]["communication"]


def test_the_picture_says_it_in_words(told):
    assert "rank 0 waits" in told[0]["words"]
    assert "for rank 1" in told[0]["words"]


def alone_and_without():
    dist.destroy_process_group()
    with record(all_ranks=True):
        pass


def test_without_a_process_group_there_are_no_ranks():
    with pytest.raises(RankError, match=r"record\(all_ranks=True\) joins the timelines of ranks, and this process is"):
        ranks(2).run(alone_and_without)
