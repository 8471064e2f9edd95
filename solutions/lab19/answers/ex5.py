# %% wrong: parts_of_hours
# Pays for parts of hours.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((took * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: activations_forgotten
# Plans memory for weights and Adam only.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: gradients_forgotten
# Counts weights and the state of AdamW, and no gradients.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 12 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: kept_spread_evenly
# Spreads what is kept over the GPUs, as the weights are.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if (16 * model["weights"] + model["kept"]) / gpus > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: all_nodes_there_are
# Rents all nodes of an offer, because more are faster.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in [offer["most_nodes"]]:
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: sends_for_free
# Leaves out what is sent.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * computing / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: one_adapter_a_node
# Takes one adapter for a whole node.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: the_fastest
# Takes what is done first, whatever it costs.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((took, offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: raises_for_nothing
# Raises where nothing is done in time.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:]


# %% wrong: parts_of_steps
# Divides tokens by the batch, and does not round up: the last step is smaller, so it thinks it takes less.

def cheapest(model, offers, hours):
    found = []
    steps = model["tokens"] / model["batch"]
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: whole_steps_only
# Leaves out the last, smaller step.

def cheapest(model, offers, hours):
    found = []
    steps = model["tokens"] // model["batch"]
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: ends_in_the_last_hour
# Wants an hour to spare: what ends in the last one is ruled out.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if math.ceil(took) < hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: deadline_of_paid_hours
# Compares the deadline with the hours that are paid, and not with those that the training takes.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if math.ceil(took) <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: always_over_the_network
# Sends over the network also where there is one node.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: no_limit_of_the_link
# Thinks that several nodes are as fast as their network, whatever the link within a node.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else offer["per_node"] * offer["network"]
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: all_bytes
# Lets each GPU get all bytes, its own shard too.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
    return min(found)[1:] if found else None


# %% wrong: first_in_time
# Takes the first number of nodes of each offer that is done in time, as fewer GPUs cost less.

def cheapest(model, offers, hours):
    found = []
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found.append((math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes))
                break
    return min(found)[1:] if found else None


# %% wrong: last_node_count
# Keeps one price for each offer, that of the last number of nodes.

def cheapest(model, offers, hours):
    found = {}
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        for nodes in range(1, offer["most_nodes"] + 1):
            gpus = nodes * offer["per_node"]
            if 16 * model["weights"] / gpus + model["kept"] > offer["memory"]:
                continue
            ring = offer["link"] if nodes == 1 else min(offer["link"], offer["per_node"] * offer["network"])
            sending = 6 * model["weights"] * (gpus - 1) / gpus / ring
            computing = 6 * model["weights"] * model["batch"] / (gpus * offer["flops"])
            took = steps * (computing + sending) / 3600
            if took <= hours:
                found[offer["name"]] = math.ceil(took) * gpus * offer["dollars"], offer["name"], nodes
    return min(found.values())[1:] if found else None


# %% right: with_a_generator
# One generator of all that can be rented, and min with a default.

def cheapest(model, offers, hours):
    def took(offer, gpus):
        among = gpus > offer["per_node"]
        way = min(offer["link"], offer["per_node"] * offer["network"]) if among else offer["link"]
        one = model["batch"] / offer["flops"] + (gpus - 1) / way
        return -(-model["tokens"] // model["batch"]) * 6 * model["weights"] * one / gpus / 3600

    def fits(offer, gpus):
        return 16 * model["weights"] + gpus * model["kept"] <= gpus * offer["memory"]

    all_of_them = ((o, n, n * o["per_node"]) for o in offers for n in range(1, o["most_nodes"] + 1))
    good = [(o, n, gpus) for o, n, gpus in all_of_them if fits(o, gpus) and took(o, gpus) <= hours]
    if not good:
        return None
    best, nodes, _ = min(good, key=lambda one: math.ceil(took(one[0], one[2])) * one[2] * one[0]["dollars"])
    return best["name"], nodes


# %% right: offer_by_offer
# Plain loops that keep the best so far.

def cheapest(model, offers, hours):
    best, price = None, math.inf
    steps = math.ceil(model["tokens"] / model["batch"])
    for offer in offers:
        nodes = 0
        while nodes < offer["most_nodes"]:
            nodes += 1
            gpus = nodes * offer["per_node"]
            need = 16 * model["weights"] / gpus + model["kept"]
            bandwidth = offer["link"]
            if nodes > 1 and offer["per_node"] * offer["network"] < bandwidth:
                bandwidth = offer["per_node"] * offer["network"]
            step = 6 * model["weights"] * model["batch"] / offer["flops"] / gpus
            for _ in range(3):
                step += 2 * model["weights"] * (gpus - 1) / gpus / bandwidth
            time = steps * step / 3600
            cost = math.ceil(time) * gpus * offer["dollars"]
            if need <= offer["memory"] and time <= hours and cost < price:
                best, price = (offer["name"], nodes), cost
    return best
