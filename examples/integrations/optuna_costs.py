"""Optuna with one line more: each trial is a run, costs are told, costly trials pruned."""

import optuna
import torch
from torch import nn

from trainload.integrations.optuna import measured


def objective(trial):
    width = trial.suggest_categorical("width", [16, 256])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                          nn.Linear(width, 1))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rows = torch.randn(512, 64)
    for epoch in range(10):
        for _ in range(10):
            optimizer.zero_grad()
            loss = (model(rows) - rows[:, :1]).square().mean()
            loss.backward()
            optimizer.step()
        trial.report(loss.item(), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss.item()


def main():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.GridSampler({"width": [16, 256]}, seed=0))
    costed = measured(objective, limit_s=60, price_per_hour=2.5)  # this line
    study.optimize(costed, n_trials=2)
    for trial in study.trials:
        cost = trial.user_attrs
        print(f"trial {trial.number}: {trial.state.name}, {cost['trainload_time_s']:.2f} s, "
              f"{cost['trainload_money']:.6f} of money")  # fmt: skip


if __name__ == "__main__":
    main()
