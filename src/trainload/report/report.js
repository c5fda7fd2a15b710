"use strict";
// Draws every plot from the embedded data and redraws when a control changes.
(() => {
  const COLOURS = 8;
  const BANDS = 4;
  const FEW_POINTS = 60;
  const NARROW_PX = 420;
  const RAW_BESIDE_AVERAGE = 0.3;
  const runs = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const plots = [];

  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
  // Plotly reads a small HTML in names: angle brackets must stay text.
  const plain = (text) =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function style() {
    const css = getComputedStyle(root);
    const read = (name) => css.getPropertyValue(name).trim();
    return {
      ink: read("--ink"),
      quiet: read("--quiet"),
      grid: read("--grid"),
      panel: read("--panel"),
      series: Array.from({ length: COLOURS }, (_, at) => read(`--s${at}`)),
      bands: Array.from({ length: BANDS }, (_, at) => read(`--b${at}`)),
    };
  }

  function tracesOf(plot, look) {
    const window = chosen("smoothing");
    const axis = chosen("axis");
    const traces = [];
    plot.figure.series.forEach((series, at) => {
      if (plot.hidden.has(at)) return;
      const average = window === "none" ? undefined : series.average[window];
      const x = plot.run.grids[series.grid][axis];
      const few = series.raw.length <= FEW_POINTS;
      const value = plot.figure.percent ? "%{y:.1%}" : "%{y:.4g} " + plot.unit;
      const base = {
        type: "scatter",
        x,
        connectgaps: false,
        name: plain(series.name),
        hovertemplate: `${plain(series.name)}<br>${value}<extra></extra>`,
        showlegend: false,
      };
      const line = { color: look.series[at % COLOURS], dash: at < COLOURS ? "solid" : "dot" };
      traces.push({
        ...base,
        y: series.raw,
        mode: few ? "lines+markers" : "lines",
        marker: { size: 4 },
        line: { ...line, width: average ? 1 : 1.4 },
        opacity: average ? RAW_BESIDE_AVERAGE : 1,
        hoverinfo: average ? "skip" : undefined,
        hovertemplate: average ? undefined : base.hovertemplate,
        meta: "raw",
      });
      if (average) {
        traces.push({
          ...base, y: average, mode: "lines", line: { ...line, width: 2.4 }, meta: "average",
        });
      }
    });
    return traces;
  }

  function layoutOf(plot, look) {
    const time = chosen("axis") === "time";
    const line = { gridcolor: look.grid, zerolinecolor: look.grid, linecolor: look.quiet };
    const y = { ...line, title: { text: plot.figure.axis, standoff: 6 }, automargin: true };
    if (plot.figure.percent) {
      y.tickformat = ".0%";
      y.range = [0, Math.max(1.02, plot.highest * 1.05)];
    } else {
      y.rangemode = "tozero";
    }
    return {
      paper_bgcolor: look.panel,
      plot_bgcolor: look.panel,
      font: { color: look.ink, size: 12, family: "system-ui, sans-serif" },
      margin: { l: 48, r: 10, t: 8, b: 40 },
      hovermode: "closest",
      hoverlabel: { align: "left", namelength: -1 },
      xaxis: {
        ...line,
        title: { text: time ? plot.run.time : "iteration", standoff: 6 },
        rangemode: "tozero",
        automargin: true,
        nticks: plot.element.clientWidth < NARROW_PX ? 5 : 8,
        tickangle: 0,
      },
      yaxis: y,
      shapes: time ? plot.run.bands.map((band) => ({
        type: "rect", xref: "x", yref: "paper", layer: "below", line: { width: 0 },
        x0: band.start, x1: band.end, y0: 0, y1: 1, fillcolor: look.bands[band.kind % BANDS],
      })) : [],
    };
  }

  function draw(plot, look) {
    Plotly.react(plot.element, tracesOf(plot, look), layoutOf(plot, look), {
      responsive: true, displayModeBar: false, scrollZoom: false,
    });
  }

  function drawAll() {
    const look = style();
    plots.forEach((plot) => draw(plot, look));
  }

  runs.forEach((run, runAt) => {
    run.figures.forEach((figure, at) => {
      const element = document.getElementById(`run-${runAt + 1}-plot-${at}`);
      if (!element) return;
      let highest = 0;
      figure.series.forEach((s) => s.raw.forEach((v) => { if (v > highest) highest = v; }));
      const unit = figure.axis === "loss" || figure.axis === "count" ? "" : plain(figure.axis);
      plots.push({ run, figure, element, highest, unit, hidden: new Set() });
    });
  });

  document.addEventListener("change", (event) => {
    const input = event.target;
    if (input.name === "theme") root.dataset.theme = input.value;
    if (input.dataset.plot) {
      const plot = plots.find((p) => p.element.id === input.dataset.plot);
      const at = Number(input.dataset.series);
      if (input.checked) plot.hidden.delete(at); else plot.hidden.add(at);
      draw(plot, style());
    } else {
      drawAll();
    }
  });
  document.querySelector(".controls").addEventListener("submit", (e) => e.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    drawAll();
    plots.forEach((plot) => Plotly.Plots.resize(plot.element));
  });
  // A reload may restore controls from before.
  root.dataset.theme = chosen("theme");
  document.querySelectorAll(".legend input").forEach((input) => { input.checked = true; });
  drawAll();
  root.dataset.drawn = "yes";
})();
