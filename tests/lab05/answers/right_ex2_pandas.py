"""Lets pandas group the samples, and turns its NaN back into None."""

import pandas as pd


def mean_utilisation(samples):
    table = pd.DataFrame(samples, columns=["device", "percent"])
    table["percent"] = table["percent"].astype(float)
    means = table.groupby("device")["percent"].mean()
    return {device: None if pd.isna(mean) else mean for device, mean in means.items()}
