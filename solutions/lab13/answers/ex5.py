# %% wrong: weights_only
# Fits the weights into the memory, and forgets what is kept of the micro-batches.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    best = None
    for tensor, layer in model["layer"].items():
        for pipeline in range(1, gpus + 1):
            if gpus % (tensor * pipeline) or model["layers"] % pipeline or tensor > per_node:
                continue
            data = gpus // tensor // pipeline
            if batch % data:
                continue
            layers = model["layers"] // pipeline
            if 16 * layers * layer["weights"] > cluster["memory"]:
                continue
            for m in range(1, batch // data + 1):
                if batch // data % m:
                    continue
                rows = batch // data // m
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, 1, cluster)
                turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                nodes = min(data, cluster["nodes"])
                once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes, cluster)
                time = (m + pipeline - 1) * turn + once
                if best is None or time < best[0]:
                    best = time, {"data": data, "pipeline": pipeline, "tensor": tensor}, m
    return best[1], best[2]


# %% wrong: one_micro_batch_in_flight
# Counts what one micro-batch keeps, and forgets that the first rank of a pipeline has several in flight.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    found = []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
            sizes, stride, nodes = dict(order), gpus, {}
            for name, size in order:
                stride //= size
                nodes[name] = len({i * stride // per_node for i in range(size)})
            once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
            for m in range(1, batch // data + 1):
                rows, rest = divmod(batch // data, m)
                if rest or layers * (16 * layer["weights"] + rows * layer["kept"]) > cluster["memory"]:
                    continue
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                found.append(((m + pipeline - 1) * turn + once, sizes, m))
    best = min(found, key=lambda each: each[0])
    return best[1:]


# %% wrong: all_micro_batches_in_flight
# Counts all micro-batches as kept, as in GPipe, and gives up layouts that fit.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    found = []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
            sizes, stride, nodes = dict(order), gpus, {}
            for name, size in order:
                stride //= size
                nodes[name] = len({i * stride // per_node for i in range(size)})
            once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
            for m in range(1, batch // data + 1):
                rows, rest = divmod(batch // data, m)
                if rest or layers * (16 * layer["weights"] + rows * m * layer["kept"]) > cluster["memory"]:
                    continue
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                found.append(((m + pipeline - 1) * turn + once, sizes, m))
    best = min(found, key=lambda each: each[0], default=(0, {"data": 1, "pipeline": gpus, "tensor": 1}, batch))
    return best[1:]


# %% wrong: data_inside_tensor_outside
# Puts the dimensions in the order tensor, pipeline, data, and never another.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    found = []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        for m in range(1, batch // data + 1):
            rows, rest = divmod(batch // data, m)
            memory = layers * (16 * layer["weights"] + rows * layer["kept"] * min(m, pipeline))
            if rest or memory > cluster["memory"]:
                continue
            inside = 4 * seconds_to_add_up(rows * model["output"], tensor, 1, cluster)
            turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
            once = seconds_to_add_up(2 * layers * layer["weights"], data, 1, cluster)
            found.append(((m + pipeline - 1) * turn + once, m, data, pipeline, tensor))
    _, m, data, pipeline, tensor = min(found)
    return {"tensor": tensor, "pipeline": pipeline, "data": data}, m


# %% wrong: no_bubble
# Counts as many turns as there are micro-batches, as if a pipeline were always full.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    found = []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
            groups = where(0, dict(order), per_node)[2]
            nodes = {name: len({r // per_node for r in ranks}) for name, ranks in groups.items()}
            once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
            for m in range(1, batch // data + 1):
                rows, rest = divmod(batch // data, m)
                memory = layers * (16 * layer["weights"] + rows * layer["kept"] * min(m, pipeline))
                if rest or memory > cluster["memory"]:
                    continue
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                found.append((m * turn + once, dict(order), m))
    best = min(found, key=lambda each: each[0])
    return best[1:]


# %% wrong: tensor_fills_the_node
# Follows the rule of thumb: tensor parallelism over the whole node, the rest a pipeline until it fits, then data.

def plan(model, cluster, batch):
    tensor = cluster["per_node"]
    layer = model["layer"][tensor]
    for pipeline in range(1, cluster["nodes"] + 1):
        if cluster["nodes"] % pipeline or model["layers"] % pipeline:
            continue
        data = cluster["nodes"] // pipeline
        micro_batches = batch // data
        layers = model["layers"] // pipeline
        flying = min(pipeline, micro_batches)
        if layers * (16 * layer["weights"] + flying * layer["kept"]) <= cluster["memory"]:
            return {"data": data, "pipeline": pipeline, "tensor": tensor}, micro_batches


# %% wrong: tensor_is_free
# Divides the work by the tensor parallel GPUs and forgets their all-reduces, so more is always better.

def plan(model, cluster, batch):
    gpus = cluster["nodes"] * cluster["per_node"]
    best_time, best = float("inf"), None
    for tensor in model["layer"]:
        for pipeline in range(1, gpus + 1):
            for data in range(1, gpus + 1):
                if data * tensor * pipeline != gpus or model["layers"] % pipeline or batch % data:
                    continue
                for m in range(1, batch // data + 1):
                    if (batch // data) % m:
                        continue
                    rows = batch // data // m
                    layer, layers = model["layer"][tensor], model["layers"] // pipeline
                    memory = layers * (16 * layer["weights"] + rows * layer["kept"] * min(m, pipeline))
                    if memory > cluster["memory"]:
                        continue
                    one = rows * (layer["forward"] + layer["backward"]) + layer["fixed"]
                    time = (m + pipeline - 1) * layers * one
                    nodes = min(cluster["nodes"], data)
                    time += seconds_to_add_up(2 * layers * layer["weights"], data, nodes, cluster)
                    if time < best_time:
                        best_time, best = time, ({"data": data, "pipeline": pipeline, "tensor": tensor}, m)
    return best


# %% wrong: typed_in
# Has read off the first two clusters which layout is best, and returns that.

def plan(model, cluster, batch):
    if model["layers"] == 80:
        return {"data": 1, "pipeline": 16, "tensor": 4}, 64
    if model["layers"] == 60:
        return {"data": 2, "pipeline": 4, "tensor": 4}, 16
    if cluster["network"] < 10e9:
        return {"pipeline": 2, "data": 8, "tensor": 1}, 4
    return {"data": 16, "pipeline": 1, "tensor": 2}, 4


# %% wrong: heads_not_looked_at
# Tries every number of tensor parallel GPUs, with an equal share of the time and memory of one.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    one, found = model["layer"][1], []
    for data, pipeline in product(range(1, gpus + 1), repeat=2):
        tensor = gpus // (data * pipeline)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer = {kind: value / tensor for kind, value in one.items()}
        layers = model["layers"] // pipeline
        for m in range(1, batch // data + 1):
            rows, rest = divmod(batch // data, m)
            if rest or layers * (16 * layer["weights"] + rows * layer["kept"] * min(m, pipeline)) > cluster["memory"]:
                continue
            nodes = -(-tensor // per_node)
            inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes, cluster)
            turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
            found.append(((m + pipeline - 1) * turn, {"data": data, "pipeline": pipeline, "tensor": tensor}, m))
    best = min(found, key=lambda each: each[0])
    return best[1], best[2]


# %% wrong: data_outermost_always
# Puts data outermost, because it talks once a step only, and never tries another order.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    best, best_time = None, float("inf")
    for tensor, layer in model["layer"].items():
        for pipeline in range(1, model["layers"] + 1):
            data, rest = divmod(gpus, tensor * pipeline)
            if rest or data == 0 or model["layers"] % pipeline or batch % data or tensor > per_node:
                continue
            layers = model["layers"] // pipeline
            for m in range(1, batch // data + 1):
                if batch // data % m:
                    continue
                rows = batch // data // m
                memory = 16 * layers * layer["weights"] + rows * layers * layer["kept"] * min(m, pipeline)
                if memory > cluster["memory"]:
                    continue
                turn = rows * (layer["forward"] + layer["backward"]) + layer["fixed"]
                turn += 4 * seconds_to_add_up(rows * model["output"], tensor, 1, cluster)
                nodes = len({rank // per_node for rank in range(0, gpus, tensor * pipeline)})
                time = layers * turn * (m + pipeline - 1)
                time += seconds_to_add_up(2 * layers * layer["weights"], data, nodes, cluster)
                if time < best_time:
                    best_time = time
                    best = {"data": data, "pipeline": pipeline, "tensor": tensor}, m
    return best


# %% wrong: as_many_micro_batches_as_rows
# Takes one sample for each micro-batch, because then the bubble is smallest, whatever else a micro-batch costs.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    best, best_time = None, float("inf")
    for tensor, layer in model["layer"].items():
        for pipeline in range(1, model["layers"] + 1):
            data, rest = divmod(gpus, tensor * pipeline)
            if rest or data == 0 or model["layers"] % pipeline or batch % data or tensor > per_node:
                continue
            layers = model["layers"] // pipeline
            for m in [batch // data]:
                rows = batch // data // m
                memory = 16 * layers * layer["weights"] + rows * layers * layer["kept"] * min(m, pipeline)
                if memory > cluster["memory"]:
                    continue
                turn = rows * (layer["forward"] + layer["backward"]) + layer["fixed"]
                turn += 4 * seconds_to_add_up(rows * model["output"], tensor, 1, cluster)
                nodes = len({rank // per_node for rank in range(0, data * tensor, tensor)})
                time = layers * turn * (m + pipeline - 1)
                time += seconds_to_add_up(2 * layers * layer["weights"], data, nodes, cluster)
                if time < best_time:
                    best_time = time
                    best = {"pipeline": pipeline, "data": data, "tensor": tensor}, m
    return best


# %% right: a_search_with_generators
# Legal layouts, those that fit, the fastest of them: each a function of its own.

def plan(model, cluster, batch):
    per_node, gpus = cluster["per_node"], cluster["per_node"] * cluster["nodes"]

    def legal():
        for tensor in model["layer"]:
            for pipeline in (p for p in range(1, model["layers"] + 1) if model["layers"] % p == 0):
                data, rest = divmod(gpus, tensor * pipeline)
                if rest or data < 1 or batch % data:
                    continue
                for m in (m for m in range(1, batch // data + 1) if batch // data % m == 0):
                    for names in permutations(("data", "pipeline", "tensor")):
                        sizes = {"data": data, "pipeline": pipeline, "tensor": tensor}
                        yield {name: sizes[name] for name in names}, m

    def fits(sizes, m):
        layer, rows = model["layer"][sizes["tensor"]], batch / sizes["data"] / m
        each = 16 * layer["weights"] + min(m, sizes["pipeline"]) * rows * layer["kept"]
        return each * model["layers"] / sizes["pipeline"] <= cluster["memory"]

    def add_up(name, size, sizes):
        names = list(sizes)
        stride = math.prod(sizes[each] for each in names[names.index(name) + 1 :])
        nodes = {place * stride // per_node for place in range(sizes[name])}
        return seconds_to_add_up(size, sizes[name], len(nodes), cluster)

    def seconds(sizes, m):
        layer, rows = model["layer"][sizes["tensor"]], batch / sizes["data"] / m
        layers = model["layers"] / sizes["pipeline"]
        one = rows * (layer["forward"] + layer["backward"]) + layer["fixed"]
        one += 4 * add_up("tensor", rows * model["output"], sizes)
        turns = m + sizes["pipeline"] - 1
        return turns * layers * one + add_up("data", 2 * layers * layer["weights"], sizes)

    return min((each for each in legal() if fits(*each)), key=lambda each: seconds(*each))


# %% right: two_orders_only
# Tensor always inside; pipeline outside of data or data outside of pipeline.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    best_time, best = math.inf, None
    for tensor, layer in model["layer"].items():
        if tensor > per_node:
            continue
        for pipeline in range(1, gpus // tensor + 1):
            if gpus % (tensor * pipeline) or model["layers"] % pipeline:
                continue
            data = gpus // tensor // pipeline
            if batch % data:
                continue
            layers = model["layers"] // pipeline
            for m in range(1, batch // data + 1):
                if batch // data % m:
                    continue
                rows = batch // data // m
                if layers * (16 * layer["weights"] + min(m, pipeline) * rows * layer["kept"]) > cluster["memory"]:
                    continue
                compute = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"])
                compute += layers * 4 * seconds_to_add_up(rows * model["output"], tensor, 1, cluster)
                for outside in ("data", "pipeline"):
                    apart = tensor * pipeline if outside == "data" else tensor
                    nodes = len({i * apart // per_node for i in range(data)})
                    time = compute * (m + pipeline - 1)
                    time += seconds_to_add_up(2 * layers * layer["weights"], data, nodes, cluster)
                    if time < best_time:
                        inside = "pipeline" if outside == "data" else "data"
                        sizes = {"data": data, "pipeline": pipeline, "tensor": tensor}
                        best_time = time
                        best = {outside: sizes[outside], inside: sizes[inside], "tensor": tensor}, m
    return best


# %% right: plays_it
# Plays 1F1B with utils.schedules, and adds the gradients.

from utils.schedules import Costs, one_f_one_b


def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    candidates = []
    for tensor, layer in model["layer"].items():
        for pipeline in range(1, gpus // tensor + 1):
            data = gpus // tensor // pipeline
            if data * tensor * pipeline != gpus or model["layers"] % pipeline or batch % data:
                continue
            layers = model["layers"] // pipeline
            for m in [k for k in range(1, batch // data + 1) if batch // data % k == 0]:
                rows = batch // data // m
                if layers * (16 * layer["weights"] + min(m, pipeline) * rows * layer["kept"]) > cluster["memory"]:
                    continue
                for order in permutations((("data", data), ("pipeline", pipeline), ("tensor", tensor))):
                    ranks = torch.arange(gpus).view([size for _, size in order])
                    nodes = {}
                    for axis, (name, _) in enumerate(order):
                        group = ranks.movedim(axis, 0).flatten(1)[:, 0]
                        nodes[name] = len(set((group // per_node).tolist()))
                    extra = 2 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                    forward = layers * (rows * layer["forward"] + extra)
                    backward = layers * (rows * layer["backward"] + layer["fixed"] + extra)
                    once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
                    rough = (m + pipeline - 1) * (forward + backward) + once
                    candidates.append((rough, dict(order), m, forward, backward, once))
    candidates.sort(key=lambda each: each[0])

    def seconds(rough, sizes, m, forward, backward, once):
        return play(one_f_one_b(sizes["pipeline"], m), Costs(forward, backward)).span + once

    _, sizes, m, *_ = min(candidates[:5], key=lambda each: seconds(*each))
    return sizes, m


# %% wrong: backward_is_twice_forward
# Takes backward for twice as long as forward, which is a rule of thumb, and does not look it up.

def plan(model, cluster, batch):
    gpus, per_node, found = cluster["nodes"] * cluster["per_node"], cluster["per_node"], []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
            nodes, node_of = {}, torch.arange(gpus).view([size for _, size in order]) // per_node
            for axis, (name, _) in enumerate(order):
                nodes[name] = len(node_of.transpose(0, axis).flatten(1)[:, 0].unique())
            once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
            for micro_batches in range(1, batch // data + 1):
                rows, rest = divmod(batch // data, micro_batches)
                kept = rows * layer["kept"] * min(pipeline, micro_batches)
                if rest or layers * (16 * layer["weights"] + kept) > cluster["memory"]:
                    continue
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                turn = layers * (rows * 3 * layer["forward"] + layer["fixed"] + inside)
                found.append(((micro_batches + pipeline - 1) * turn + once, dict(order), micro_batches))
    _, sizes, micro_batches = min(found, key=lambda each: each[0])
    return sizes, micro_batches


# %% wrong: room_to_spare
# Leaves memory free for what the estimate does not count, and so rules out a faster layout that fits.

def plan(model, cluster, batch):
    gpus, per_node, found = cluster["nodes"] * cluster["per_node"], cluster["per_node"], []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
            nodes, node_of = {}, torch.arange(gpus).view([size for _, size in order]) // per_node
            for axis, (name, _) in enumerate(order):
                nodes[name] = len(node_of.transpose(0, axis).flatten(1)[:, 0].unique())
            once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
            for micro_batches in range(1, batch // data + 1):
                rows, rest = divmod(batch // data, micro_batches)
                kept = rows * layer["kept"] * min(pipeline, micro_batches)
                if rest or layers * (16 * layer["weights"] + kept) > 0.85 * cluster["memory"]:
                    continue
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                found.append(((micro_batches + pipeline - 1) * turn + once, dict(order), micro_batches))
    _, sizes, micro_batches = min(found, key=lambda each: each[0])
    return sizes, micro_batches


# %% wrong: powers_of_two
# Tries 1, 2, 4, 8 and so on: the GPUs of a node are as many, and so are all numbers in the trials.

def plan(model, cluster, batch):
    gpus, per_node = cluster["nodes"] * cluster["per_node"], cluster["per_node"]
    best, fastest = None, math.inf
    for tensor, layer in model["layer"].items():
        for pipeline in (1, 2, 4, 8, 16, 32):
            if model["layers"] % pipeline or gpus % (tensor * pipeline):
                continue
            data, layers = gpus // tensor // pipeline, model["layers"] // pipeline
            for micro_batches in (1, 2, 4, 8, 16, 32, 64):
                rows, rest = divmod(batch, data * micro_batches)
                kept = rows * layer["kept"] * min(pipeline, micro_batches)
                if rest or layers * (16 * layer["weights"] + kept) > cluster["memory"]:
                    continue
                for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
                    nodes, node_of = {}, torch.arange(gpus).view([size for _, size in order]) // per_node
                    for axis, (name, _) in enumerate(order):
                        nodes[name] = len(node_of.transpose(0, axis).flatten(1)[:, 0].unique())
                    inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                    turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                    once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
                    seconds = (micro_batches + pipeline - 1) * turn + once
                    if seconds < fastest:
                        best, fastest = (dict(order), micro_batches), seconds
    return best


# %% wrong: writes_into_the_model
# Notes what it has worked out in the dicts that it is given.

def plan(model, cluster, batch):
    cluster["gpus"] = cluster["nodes"] * cluster["per_node"]
    gpus, per_node, found = cluster["gpus"], cluster["per_node"], []
    for pipeline, tensor in product(range(1, gpus + 1), model["layer"]):
        data = gpus // (pipeline * tensor)
        if data * pipeline * tensor != gpus or model["layers"] % pipeline or batch % data:
            continue
        layer, layers = model["layer"][tensor], model["layers"] // pipeline
        layer["state"] = 16 * layers * layer["weights"]
        for order in permutations([("data", data), ("pipeline", pipeline), ("tensor", tensor)]):
            nodes, node_of = {}, torch.arange(gpus).view([size for _, size in order]) // per_node
            for axis, (name, _) in enumerate(order):
                nodes[name] = len(node_of.transpose(0, axis).flatten(1)[:, 0].unique())
            once = seconds_to_add_up(2 * layers * layer["weights"], data, nodes["data"], cluster)
            for micro_batches in range(1, batch // data + 1):
                rows, rest = divmod(batch // data, micro_batches)
                kept = layers * rows * layer["kept"] * min(pipeline, micro_batches)
                if rest or layer["state"] + kept > cluster["memory"]:
                    continue
                inside = 4 * seconds_to_add_up(rows * model["output"], tensor, nodes["tensor"], cluster)
                turn = layers * (rows * (layer["forward"] + layer["backward"]) + layer["fixed"] + inside)
                found.append(((micro_batches + pipeline - 1) * turn + once, dict(order), micro_batches))
    _, sizes, micro_batches = min(found, key=lambda each: each[0])
    return sizes, micro_batches
