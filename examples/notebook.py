"""Runs two trainings, loads them, puts them in one table and plots a load; as in a notebook."""

import plotly.graph_objects as go

import trainload

for width in (64, 256):
    print(trainload.run("mlp", hidden_units=width, epochs=2, frames_fraction=0.05, out="runs"))
runs = trainload.load_all("runs/*")
print(runs.table().select("run_id", "outcome", "step_s", "examples_per_s", "validation_accuracy"))
load = runs[-1].samples.select("t_s", "run_cpu_load_fraction").drop_nulls()
figure = go.Figure(go.Scatter(x=load["t_s"], y=load["run_cpu_load_fraction"]))
figure.update_layout(title=str(runs[-1]), xaxis_title="s").write_html("load.html")
