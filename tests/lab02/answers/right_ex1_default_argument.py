"""Binds the name as a default argument of a lambda, prints the table, works without gradients."""

def devices_seen(model, x):
    seen = []
    handles = []
    for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        handles.append(
            m.register_forward_hook(lambda _, i, o, n=n: seen.append([n, f"{i[0].device}", f"{o.device}"]))
        )
    with torch.no_grad():
        model(x)
    for h in handles:
        h.remove()
    for row in seen:
        print(*row)
    return seen
