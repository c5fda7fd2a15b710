"""The reference book: what trainings took, by model, framework, device, batch and precision.

Figures in, entries and frames out; opens no file but its own shipped table.
"""

from trainload.analyse.book.entries import (
    METRICS,
    Book,
    BookEntry,
    BookFigure,
    book_frame,
    in_order,
)
from trainload.analyse.book.gather import BookRun, device_of, gather_entries
from trainload.analyse.book.table import load_shipped, parse_table, table_json

__all__ = [
    "METRICS",
    "Book",
    "BookEntry",
    "BookFigure",
    "BookRun",
    "book_frame",
    "device_of",
    "gather_entries",
    "in_order",
    "load_shipped",
    "parse_table",
    "table_json",
]
