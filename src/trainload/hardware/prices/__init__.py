"""What devices cost: instances by the hour, purchases and electricity, with source and date.

Reads shipped files and the user's own, which replace them; computes nothing. No price is made up.
"""

from trainload.hardware.prices.files_of import load_price_file, load_prices
from trainload.hardware.prices.types import Electricity, Instance, Origin, Prices, Purchase

__all__ = [
    "Electricity",
    "Instance",
    "Origin",
    "Prices",
    "Purchase",
    "load_price_file",
    "load_prices",
]
