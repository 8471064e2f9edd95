# %% wrong: index_taken_for_physical
# Looks up the local rank among all GPUs of the machine, whatever the process sees.

def which_gpu(variables, local_rank, by_bus, by_speed):
    gpus = by_speed
    if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        gpus = by_bus
    return gpus[local_rank] if local_rank < len(gpus) else None


# %% wrong: always_by_bus
# Thinks that CUDA numbers GPUs as nvidia-smi does, and never looks at CUDA_DEVICE_ORDER.

def which_gpu(variables, local_rank, by_bus, by_speed):
    names = variables.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return by_bus[local_rank] if local_rank < len(by_bus) else None
    seen = []
    for name in names.split(","):
        matches = [g for i, g in enumerate(by_bus) if name == str(i) or (name.startswith("GPU-") and g.startswith(name))]
        if len(matches) != 1:
            break
        seen.append(matches[0])
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: empty_is_unset
# An empty text is false, so the variable that hides all GPUs hides none.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    names = variables.get("CUDA_VISIBLE_DEVICES")
    if not names:
        seen = order
    else:
        seen = []
        for name in names.split(","):
            if name.startswith("GPU-"):
                found = [g for g in order if g.startswith(name)]
            elif name.isdigit() and int(name) < len(order):
                found = [order[int(name)]]
            else:
                found = []
            if len(found) != 1:
                break
            seen.append(found[0])
    if local_rank >= len(seen):
        return None
    return seen[local_rank]


# %% wrong: skips_the_unknown
# Leaves out what it does not know, and goes on with the next.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    if "CUDA_VISIBLE_DEVICES" not in variables:
        seen = list(order)
    else:
        seen = []
        for name in variables["CUDA_VISIBLE_DEVICES"].split(","):
            if name.isdigit() and int(name) < len(order):
                seen.append(order[int(name)])
            elif name.startswith("GPU-"):
                found = [g for g in order if g.startswith(name)]
                if len(found) == 1:
                    seen.append(found[0])
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: minus_one_is_the_last
# Uses the number as an index of a Python list, where -1 is the last GPU.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    names = variables.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        seen = order
    elif names == "":
        seen = []
    else:
        seen = []
        for name in names.split(","):
            try:
                if name.startswith("GPU"):
                    (gpu,) = [g for g in order if g.startswith(name)]
                else:
                    gpu = order[int(name)]
            except (ValueError, IndexError):
                break
            seen.append(gpu)
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: whole_uuids_only
# Looks for the whole UUID, and does not know that its beginning is enough.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    names = variables.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        seen = list(order)
    else:
        seen = []
        for name in names.split(","):
            if name in order:
                seen.append(name)
            elif name.isdigit() and int(name) < len(order):
                seen.append(order[int(name)])
            else:
                break
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: first_that_fits
# Takes the first GPU whose UUID begins so, though several do.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    seen = []
    for name in variables.get("CUDA_VISIBLE_DEVICES", ",".join(order)).split(","):
        if name.isdigit():
            gpu = order[int(name)] if int(name) < len(order) else None
        else:
            gpu = next((g for g in order if name.startswith("GPU-") and g.startswith(name)), None)
        if gpu is None:
            break
        seen.append(gpu)
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: the_other_way_around
# Takes "2,3,1,0" for the new number of each GPU, and not for the GPU of each number.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    if "CUDA_VISIBLE_DEVICES" not in variables:
        return order[local_rank] if local_rank < len(order) else None
    numbers = []
    for name in variables["CUDA_VISIBLE_DEVICES"].split(","):
        fits = [n for n, gpu in enumerate(order) if str(n) == name or (name.startswith("GPU-") and gpu.startswith(name))]
        if len(fits) != 1:
            break
        numbers += fits
    if local_rank not in range(len(numbers)):
        return None
    if sorted(numbers) == list(range(len(numbers))):
        return order[numbers.index(local_rank)]
    return order[numbers[local_rank]]


# %% wrong: uuids_then_numbers
# Collects the numbers first and puts the GPUs that are named by UUID behind them.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    if "CUDA_VISIBLE_DEVICES" not in variables:
        return order[local_rank] if local_rank < len(order) else None
    good = []
    for name in variables["CUDA_VISIBLE_DEVICES"].split(","):
        if name.isdigit():
            fits = order[int(name) : int(name) + 1]
        else:
            fits = [gpu for gpu in order if name.startswith("GPU-") and gpu.startswith(name)]
        if len(fits) != 1:
            break
        good.append((name, fits[0]))
    seen = [gpu for name, gpu in good if name.isdigit()] + [gpu for name, gpu in good if not name.isdigit()]
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: one_digit
# Takes one digit for a number, so that GPU 10 of a large machine is none.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    if "CUDA_VISIBLE_DEVICES" not in variables:
        return order[local_rank] if local_rank < len(order) else None
    seen = []
    for name in variables["CUDA_VISIBLE_DEVICES"].split(","):
        if len(name) == 1 and name in "0123456789" and int(name) < len(order):
            seen.append(order[int(name)])
            continue
        fits = [gpu for gpu in order if name.startswith("GPU-") and gpu.startswith(name)]
        if len(fits) != 1:
            break
        seen += fits
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: spoils_variables_only
# Takes the order out of the caller's dict with pop, so that the next call with it counts otherwise.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.pop("CUDA_DEVICE_ORDER", "FASTEST_FIRST") == "PCI_BUS_ID" else by_speed
    if "CUDA_VISIBLE_DEVICES" not in variables:
        return order[local_rank] if local_rank < len(order) else None
    seen = []
    for name in variables["CUDA_VISIBLE_DEVICES"].split(","):
        if name.isdigit():
            fits = order[int(name) : int(name) + 1]
        else:
            fits = [gpu for gpu in order if name.startswith("GPU-") and gpu.startswith(name)]
        if len(fits) != 1:
            break
        seen += fits
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: part_of_a_uuid
# Looks for the name anywhere in the UUIDs.

def which_gpu(variables, local_rank, by_bus, by_speed):
    gpus = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        seen = list(gpus)
    else:
        seen = []
        for name in visible.split(",") if visible else []:
            if name.isdigit():
                fitting = gpus[int(name) : int(name) + 1]
            else:
                fitting = [uuid for uuid in gpus if name in uuid]
            if len(fitting) != 1:
                break
            seen += fitting
    return seen[local_rank] if local_rank < len(seen) else None


# %% wrong: part_behind_the_word
# Leaves out the word GPU-, and looks for the rest anywhere in the UUIDs.

def which_gpu(variables, local_rank, by_bus, by_speed):
    gpus = by_bus if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else by_speed
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    seen = list(gpus) if visible is None else []
    for name in [] if visible is None else visible.split(","):
        if name.startswith("GPU-"):
            fitting = [uuid for uuid in gpus if name.removeprefix("GPU-") in uuid]
        else:
            fitting = [uuid for number, uuid in enumerate(gpus) if str(number) == name]
        if len(fitting) != 1:
            break
        seen += fitting
    return seen[local_rank] if local_rank < len(seen) else None


# %% right: a_dictionary_of_names
# All names a GPU may have, and how many have it.

def which_gpu(variables, local_rank, by_bus, by_speed):
    order = {"PCI_BUS_ID": by_bus}.get(variables.get("CUDA_DEVICE_ORDER"), by_speed)
    known = {}
    for number, uuid in enumerate(order):
        for name in {str(number)} | {uuid[:length] for length in range(5, len(uuid) + 1)}:
            known.setdefault(name, []).append(uuid)
    seen = list(order)
    if "CUDA_VISIBLE_DEVICES" in variables:
        seen = []
        for name in variables["CUDA_VISIBLE_DEVICES"].split(","):
            if len(known.get(name, [])) != 1:
                break
            seen.extend(known[name])
    return dict(enumerate(seen)).get(local_rank)


# %% right: with_a_generator
# takewhile stops at the first name that fits none or several.

from itertools import takewhile


def which_gpu(variables, local_rank, by_bus, by_speed):
    order = by_bus if variables.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST") == "PCI_BUS_ID" else by_speed

    def find(name):
        if name.startswith("GPU-"):
            return [uuid for uuid in order if uuid.startswith(name)]
        return [order[int(name)]] if name.isdecimal() and int(name) < len(order) else []

    if "CUDA_VISIBLE_DEVICES" not in variables:
        seen = [[uuid] for uuid in order]
    else:
        found = map(find, variables["CUDA_VISIBLE_DEVICES"].split(","))
        seen = list(takewhile(lambda fitting: len(fitting) == 1, found))
    try:
        return seen[local_rank][0]
    except IndexError:
        return None


# %% right: counting_down
# Goes through the names until it is at the local rank's.

def which_gpu(variables, local_rank, by_bus, by_speed):
    if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        gpus = by_bus
    else:
        gpus = by_speed
    if variables.get("CUDA_VISIBLE_DEVICES") is None:
        names = [str(i) for i in range(len(gpus))]
    else:
        names = variables["CUDA_VISIBLE_DEVICES"].split(",")
    if local_rank >= len(names):
        return None
    for name in names[: local_rank + 1]:
        gpu = None
        for i, uuid in enumerate(gpus):
            if str(i) == name or (name != "" and uuid.startswith(name) and name.startswith("GPU-")):
                if gpu is not None:
                    return None
                gpu = uuid
        if gpu is None:
            return None
    return gpu


# %% right: with_a_pattern
# Makes a table of names first, and matches beginnings with a regular expression.

import re


def which_gpu(variables, local_rank, by_bus, by_speed):
    gpus = {"PCI_BUS_ID": by_bus}.get(variables.get("CUDA_DEVICE_ORDER"), by_speed)
    names = variables.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(len(gpus)))))
    seen = []
    for name in names.split(","):
        pattern = re.compile(re.escape(name) if re.match("GPU-", name) else "(?!)")
        fitting = [uuid for n, uuid in enumerate(gpus) if pattern.match(uuid) or name == f"{n}"]
        if len(fitting) != 1:
            break
        seen.append(fitting[0])
    return (seen + [None] * (local_rank + 1))[local_rank]
