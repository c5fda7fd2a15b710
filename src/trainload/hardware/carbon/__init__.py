"""What a kilowatt-hour emits, by country or cloud region, with source, year and basis.

Reads shipped files and the user's own, which come first; computes nothing.
"""

from trainload.hardware.carbon.files_of import (
    CarbonPlace,
    find_place,
    load_carbon_file,
    load_places,
)

__all__ = ["CarbonPlace", "find_place", "load_carbon_file", "load_places"]
