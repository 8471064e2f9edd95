# %% wrong: still_sorted
# Leaves the rows sorted by expert.

def combine(y, send, receive, order, exchange):
    return exchange(y, receive, send)


# %% wrong: order_once_more
# Sorts by the order instead of its inverse.

def combine(y, send, receive, order, exchange):
    return exchange(y, receive, send)[order]


# %% wrong: not_swapped
# Sends as many rows as in dispatch.

def combine(y, send, receive, order, exchange):
    return exchange(y, send, receive)[order.argsort()]


# %% wrong: not_sent
# Forgets to send the rows back.

def combine(y, send, receive, order, exchange):
    return y


# %% right: by_index
# Writes each row to its place.

def combine(y, send, receive, order, exchange):
    back = exchange(y, receive, send)
    rows = torch.empty_like(back)
    rows[order] = back
    return rows
