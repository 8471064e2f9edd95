# %% wrong: one_f_one_b_under_the_cap
# Takes 1F1B's lists with the cap, and looks no further: with less in flight they take longer.

def three_in_flight():
    return [one_f_one_b(rank, 4, 8, 3) for rank in range(4)], [0, 1, 2, 3]


# %% wrong: one_f_one_b_of_the_papers
# Thinks of the seconds only: four in flight on the first rank.

def three_in_flight():
    return [one_f_one_b(rank, 4, 8, 4) for rank in range(4)], [0, 1, 2, 3]


# %% wrong: w_forgotten
# Writes I where the backward pass is needed, and forgets that every weight needs its W.

def three_in_flight():
    return [one_f_one_b(rank, 4, 8, 3).replace("B", "I") for rank in range(4)], [0, 1, 2, 3]


# %% wrong: in_flight_until_i
# Frees a micro-batch's memory after I, and lets all W wait until the end.

def three_in_flight():
    rows = [one_f_one_b(rank, 4, 8, 3).replace("B", "I") for rank in range(4)]
    return [f"{row} {' '.join(f'W{rank}.{m}' for m in range(8))}" for rank, row in enumerate(rows)], [0, 1, 2, 3]


# %% wrong: w_at_once
# Cuts the backward pass in two, and runs W right behind I: nothing has changed.

def three_in_flight():
    def halves(row):
        return " ".join(a.replace("B", "I") + a.replace("B", " W") if a[0] == "B" else a for a in row.split())

    return [halves(one_f_one_b(rank, 4, 8, 3)) for rank in range(4)], [0, 1, 2, 3]


# %% right: searched
# Has the course's search find lists for two stages on each rank, in a V.

def three_in_flight():
    placement = [0, 1, 2, 3, 3, 2, 1, 0]
    rows = greedy(4, 8, Costs(1, inputs=1, weights=1), 3, placement=placement).lists
    return [" ".join(str(action) for action in row) for row in rows], placement


# %% right: by_hand
# Lists in a V, where a backward pass is whole if nothing waits between its halves.

def three_in_flight():
    return [
        "F0.0 F0.1 F0.2 F0.3 F0.4 F7.0 B7.0 F7.1 B7.1 B0.0 F7.2 I7.2 F7.3 I7.3 W7.2 F0.5 I0.1 W7.3 F7.4 B7.4 W0.1 "
        "F0.6 B0.2 F0.7 F7.5 B7.5 B0.3 I0.4 F7.6 B7.6 W0.4 F7.7 B7.7 I0.5 B0.6 W0.5 B0.7",
        "F1.0 F1.1 F1.2 F1.3 F6.0 F1.4 B6.0 F6.1 I6.1 I1.0 W6.1 F6.2 W1.0 F6.3 I6.2 I1.1 B6.3 W6.2 F6.4 F1.5 W1.1 "
        "I6.4 I1.2 W6.4 F1.6 I1.3 F6.5 W1.3 W1.2 F1.7 I6.5 I1.4 F6.6 W6.5 W1.4 I6.6 F6.7 W6.6 I6.7 I1.5 I1.6 W6.7 "
        "W1.5 B1.7 W1.6",
        "F2.0 F2.1 F2.2 F5.0 F5.1 F2.3 B5.0 F5.2 I2.0 I5.1 W2.0 W5.1 F5.3 B2.1 F2.4 I5.2 I5.3 F5.4 W5.2 I2.2 W5.3 "
        "F2.5 I5.4 I2.3 W5.4 F5.5 F2.6 W2.2 I2.4 W2.3 F2.7 F5.6 I5.5 W2.4 W5.5 F5.7 I5.6 I2.5 W5.6 I2.6 B5.7 W2.5 "
        "B2.7 W2.6",
        "F3.0 F4.0 F3.1 F4.1 F3.2 F4.2 I4.0 B3.0 F3.3 W4.0 I4.1 F4.3 I3.1 W4.1 W3.1 F3.4 F4.4 I4.2 I3.2 B4.3 I3.3 "
        "W4.2 F3.5 F4.5 I4.4 I3.4 W4.4 F3.6 W3.2 F4.6 W3.4 W3.3 F3.7 F4.7 I4.5 I3.5 I4.6 I3.6 W4.5 W4.6 I4.7 I3.7 "
        "W4.7 W3.5 W3.7 W3.6",
    ], v_shaped(4)
