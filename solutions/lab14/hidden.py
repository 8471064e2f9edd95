"""Lab 14's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, swapped devices, three stages.
"""

from utils.exercises.facts import orders_of, visible

seen = visible("lab14")
lab = seen.lab


@seen.ex1.fact("the logits are also right with other prompts, heads, cuts and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_decoders(student, [device0, device1, device1, device1], [(1, 1, 6), (4, 11, 2)], seed=4)
            back = [device0, device1, device0, device1]
            seen.compare_decoders(student, back, [(2, 4, 3)], seed=5, heads=2)


@seen.ex1.fact("tokens can come from any device, a request can be as long as `longest`, and the model in float64")
def _(student):
    device0, device1 = student.devices
    places = seen.split(student)
    seen.compare_decoders(student, places, [(2, 6, 5)], longest=11, seed=6, comes_from=device1)
    seen.compare_decoders(student, places, [(2, 3, 3)], longest=6, seed=7, double=True, comes_from=device0)


@seen.ex1.fact("with another cut and swapped devices, a step is as cheap and the cache on its blocks' devices")
def _(student):
    device0, device1 = student.devices
    places, shape = [device1, device0, device0, device0], (3, 40, 10)
    with seen.watching(places, shape):
        run = seen.ask_watched(student, places, shape)
    for need in (seen.need_one_token, seen.need_cache_in_place, seen.need_few_copies):
        need(student, places, shape, run)


@seen.ex2.fact("cache_bytes is also right with other sizes")
def _(student):
    one = {**seen.GROUPED, "num_key_value_heads": 1, "num_attention_heads": 8, "torch_dtype": "float16"}
    seen.compare_bytes(student, one, 7, 129)
    seen.compare_bytes(student, {**seen.TINY, "hidden_size": 120, "num_hidden_layers": 5}, 2, 11)


@seen.ex2.fact("place is also right with other models, other requests and memory that is just enough")
def _(student):
    light = {"embedding": 5_000, "block": 30_000, "head": 150_000}
    two = {**seen.GROUPED, "num_hidden_layers": 9}
    # A block has 60,000 bytes of weights and 25,600 of cache.
    seen.compare_place(student, two, [352_400, 728_000], 5, 12, 8, fits=[4, 5], parameters=light)
    seen.compare_place(student, two, [352_399, 728_000], 5, 12, 8, fits=None, parameters=light)
    # The head alone is on the last GPU.
    seen.compare_place(student, two, [440_000, 440_000, 305_000], 5, 8, 12, fits=[5, 4, 0], parameters=light)
    seen.compare_place(student, seen.TINY, [1_392_960], 2, 20, 10, fits=[12])
    seen.compare_place(
        student, seen.TINY, [250_000] * 10 + [300_000], 2, 20, 10, fits=[1, 2, 2, 2, 2, 2, 1, 0, 0, 0, 0]
    )


@seen.ex2.fact("place also raises ValueError if the embedding or the head does not fit")
def _(student):
    seen.compare_place(student, seen.TINY, [150_000, 2_000_000, 2_000_000], 2, 20, 10, fits=None)
    seen.compare_place(student, seen.TINY, [2_000_000, 2_000_000, 190_000], 2, 20, 10, fits=None)
    seen.compare_place(student, seen.TINY, [1_300_000], 2, 20, 10, fits=None)


@seen.ex3.fact("tokens are also right with other groups and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_interleaved(student, [device0, device1], [(2, 4)] * 4, 5, seed=5)
            seen.compare_interleaved(student, [device0, device1], [(1, 2), (5, 1)], 3, seed=6)
            seen.compare_interleaved(student, [device0, device1], [(2, 3), (3, 2)], 1, seed=7)


@seen.ex3.fact("the busier device also has work all the time with three groups, unequal stages and swapped devices")
def _(student):
    device0, device1 = student.devices
    half = (seen.SLOW * 3 // 4, seen.SLOW)
    seen.need_busy(student, [device1, device0], [(2, 2), (3, 2), (1, 4)], 8, inner_sizes=half, seed=8)
    seen.need_busy(student, [device0, device1], [(2, 2), (3, 2)], 14, inner_sizes=half[::-1], seed=9)
