"""Predictions of trainings, asked for in Python: one function, and what it answers.

Traces and estimates through the other rooms; trains nothing and prints nothing.
"""

from trainload.api.predicting.asking import predict
from trainload.api.predicting.result import Prediction, Predictions

__all__ = ["Prediction", "Predictions", "predict"]
