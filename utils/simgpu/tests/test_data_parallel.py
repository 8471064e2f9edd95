"""`nn.DataParallel` and `torch.cuda.comm` in code for CUDA: values against the CPU, places, times and refusals."""

import copy

import pytest
import torch
from torch import nn

import simgpu

comm = torch.cuda.comm
F = nn.functional


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    torch.manual_seed(0)
    with simgpu.as_cuda():
        yield
    simgpu.enable(count=2)


def perceptron(*between):
    return nn.Sequential(nn.Linear(6, 8), *between, nn.ReLU(), nn.Linear(8, 3))


def rows(count=7):
    return torch.randn(count, 6), torch.arange(count) % 3


def trained(model, x, y, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_training_is_that_of_the_whole_batch(where):
    model, (x, y) = perceptron(), rows()
    parallel = nn.DataParallel(copy.deepcopy(model).cuda())
    assert trained(parallel, x.to(where), y.cuda()) == pytest.approx(trained(model, x, y), rel=1e-5)
    for ours, whole in zip(parallel.module.parameters(), model.parameters(), strict=True):
        assert ours.device == torch.device("cuda:0")
        torch.testing.assert_close(ours.cpu(), whole)
    ran = {record.device for record in simgpu.log() if record.name == "addmm"}
    assert ran == {0, 1}


def test_a_batch_norm_sees_its_replicas_rows_and_the_first_replica_keeps_its_statistics():
    model, (x, _) = perceptron(nn.BatchNorm1d(8)), rows(8)
    parallel = nn.DataParallel(copy.deepcopy(model).cuda())
    out = parallel(x)
    first = copy.deepcopy(model)
    expected = torch.cat([first(x[:4]), copy.deepcopy(model)(x[4:])])
    out.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(parallel.module[1].running_var.cpu(), first[1].running_var)
    assert parallel.module[1].num_batches_tracked.item() == 1


def test_each_replica_draws_from_the_generator_of_its_gpu():
    parallel = nn.DataParallel(nn.Dropout(0.5).cuda())
    ones = torch.ones(64)
    torch.manual_seed(3)
    halves = parallel(ones).chunk(2)
    torch.manual_seed(3)
    assert halves[0].tolist() == F.dropout(ones[:32].cuda(0)).tolist()
    assert halves[1].tolist() == F.dropout(ones[32:].cuda(1)).tolist()


def test_devices_in_another_order_and_outputs_elsewhere():
    model, (x, _) = perceptron(), rows()
    parallel = nn.DataParallel(copy.deepcopy(model).cuda(1), device_ids=[1, 0], output_device=0)
    out = parallel(x)
    assert out.device == torch.device("cuda:0")
    assert parallel.src_device_obj == torch.device("cuda:1")
    torch.testing.assert_close(out.cpu(), model(x))
    out.sum().backward()
    assert {parameter.grad.device for parameter in parallel.parameters()} == {torch.device("cuda:1")}


def test_a_batch_of_one_row_takes_one_gpu_and_no_gradient_is_kept_without():
    parallel = nn.DataParallel(perceptron().cuda())
    with torch.no_grad():
        assert parallel(torch.ones(1, 6)).shape == (1, 3)
        assert not parallel(torch.ones(4, 6)).requires_grad


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 2.0])[:, None])
        self.fixed = nn.Parameter(torch.tensor([1 + 2j]), requires_grad=False)

    def forward(self, x, *, weight, label):
        return {"y": x * self.scale[0] * weight, "z": x * self.fixed, "mean": x.mean(), "label": [x + 1]}


@pytest.mark.filterwarnings("ignore:Was asked to gather along dimension 0")
def test_dicts_lists_complex_numbers_and_scalars_are_gathered():
    out = nn.DataParallel(Named().cuda())(torch.arange(4.0).cuda(), weight=torch.full((4,), 3.0).cuda(), label="a")
    assert out["y"].tolist() == [0, 6, 12, 18]
    assert out["z"].tolist() == [0, 1 + 2j, 2 + 4j, 3 + 6j]
    assert out["mean"].tolist() == [0.5, 2.5]
    assert out["label"][0].tolist() == [1, 2, 3, 4]


def test_autocast_goes_into_the_replicas():
    with torch.autocast("cuda", dtype=torch.float16):
        assert nn.DataParallel(perceptron().cuda())(torch.ones(4, 6)).dtype == torch.float16


def test_the_functional_form():
    model, (x, _) = perceptron(), rows()
    out = nn.parallel.data_parallel(copy.deepcopy(model).cuda(), x.cuda(), range(2))
    torch.testing.assert_close(out.cpu(), model(x))


def test_shapes_are_enough_and_times_are_those_of_a_run_with_values():
    ends = []
    for compute in (True, False, False):
        simgpu.enable(count=2, gpu="A100", compute=compute)
        parallel, x = nn.DataParallel(perceptron().cuda()), torch.ones(512, 6)
        for _ in range(2):
            parallel(x).sum().backward()
        torch.cuda.synchronize()
        ends.append(simgpu.now())
        simgpu.enable(count=1)
    assert ends[0] == ends[1] == ends[2]


def test_what_goes_wrong_is_said_in_pytorchs_words():
    with pytest.raises(
        RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one of them on device: cpu"
    ):
        nn.DataParallel(perceptron())(torch.ones(4, 6))
    with pytest.raises(RuntimeError, match="Caught RuntimeError in replica 0 on device 0"):
        nn.DataParallel(perceptron().cuda())(torch.ones(4, 5))
    with pytest.raises(RuntimeError, match="there is no cuda:2"):
        nn.DataParallel(perceptron().cuda(), device_ids=[0, 2])(torch.ones(4, 6))


# --- torch.cuda.comm ----------------------------------------------------------------------------------------------


def places(tensors):
    return [tensor.device.index for tensor in tensors]


def test_a_tensor_is_broadcast_and_added_up_again():
    x = torch.tensor([1.0, 2.0], device="cuda:0")
    both = comm.broadcast(x, [0, 1])
    assert places(both) == [0, 1]
    assert both[0] is x
    into = [torch.zeros(2, device="cuda:1")]
    assert comm.broadcast(x, out=into)[0].tolist() == [1, 2]
    assert comm.reduce_add(both, 1).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="Exactly one of 'devices' and 'out'"):
        comm.broadcast(x)


def test_tensors_of_several_types_are_sent_in_buffers():
    tensors = [
        torch.full((size, 2), size, dtype=kind).cuda() for size in (1, 2, 3) for kind in (torch.float32, torch.int64)
    ]
    kept, sent = comm.broadcast_coalesced(tensors, [0, 1], buffer_size=24)
    assert all(a is b for a, b in zip(kept, tensors, strict=True))
    assert [(t.dtype, t.tolist(), t.device.index) for t in sent] == [(t.dtype, t.tolist(), 1) for t in tensors]
    added = comm.reduce_add_coalesced([kept, sent], 0)
    assert [t.tolist() for t in added] == [(2 * t).tolist() for t in tensors]
    with pytest.raises(RuntimeError, match=r"All tensors must be on devices\[0\]: 1"):
        comm.broadcast_coalesced(tensors, [1, 0])


def test_parts_are_scattered_and_gathered():
    x = torch.arange(10.0).view(2, 5)
    parts = comm.scatter(x, [0, 1], chunk_sizes=[2, 3], dim=1)
    assert (places(parts), [part.shape[1] for part in parts]) == ([0, 1], [2, 3])
    assert comm.gather(parts, dim=-1, destination=1).tolist() == x.tolist()
    assert comm.gather(parts, dim=1, destination="cpu").device.type == "cpu"
    out = torch.zeros(2, 5, device="cuda:1")
    assert comm.gather(parts, dim=1, out=out) is out
    assert out.tolist() == x.tolist()
    assert places(comm.scatter(x, out=[torch.zeros(1, 5).cuda(1), torch.zeros(1, 5).cuda(0)])) == [1, 0]
    with pytest.raises(RuntimeError, match="Expected all input tensors to be CUDA tensors"):
        comm.gather([x, x])
    with pytest.raises(RuntimeError, match="Gather got an input of invalid size"):
        comm.gather(parts, dim=0)
    with pytest.raises(RuntimeError, match="of same length"):
        comm.scatter(x, [0, 1], chunk_sizes=[2])
