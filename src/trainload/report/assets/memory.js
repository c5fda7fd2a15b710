"use strict";
// Draws the memory held over one step from the embedded data; again when the theme changes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const element = document.getElementById("curve");
  const NARROW_PX = 420;
  const chosen = () => document.querySelector('input[name="theme"]:checked').value;
  // Plotly reads a small HTML in names: angle brackets must stay text.
  const plain = (text) =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function look() {
    const css = getComputedStyle(root);
    const read = (name) => css.getPropertyValue(name).trim();
    return {
      ink: read("--ink"), quiet: read("--quiet"), grid: read("--grid"), panel: read("--panel"),
      held: read("--s0"), reserved: read("--s4"), limit: read("--bad"),
      phases: { forward: read("--b1"), backward: read("--b2"), update: read("--b3") },
    };
  }

  function draw() {
    if (!element) return;
    const style = look();
    const x = data.held.map((_, at) => at + 1);
    const words = data.words.map(plain);
    const line = (y, name, color, extra) => ({
      type: "scatter", mode: "lines", x, y, name, text: words, line: { color, width: 1.6, shape: "hv" },
      hovertemplate: `${name}: %{y:.4g} ${data.unit}<br>%{text}<extra></extra>`, showlegend: false,
      ...extra,
    });
    const traces = [
      line(data.reserved, "reserved", style.reserved, {}),
      line(data.held, "held", style.held, { fill: "tozeroy" }),
    ];
    const axis = { gridcolor: style.grid, zerolinecolor: style.grid, linecolor: style.quiet };
    const shapes = data.phases.map(([phase, start, end]) => ({
      type: "rect", xref: "x", yref: "paper", layer: "below", line: { width: 0 },
      x0: start, x1: end, y0: 0, y1: 1, fillcolor: style.phases[phase] || style.grid,
    }));
    const annotations = data.phases.map(([phase, start, end]) => ({
      x: (start + end) / 2, y: 1, yref: "paper", yanchor: "bottom", text: phase, showarrow: false,
      font: { color: style.quiet, size: 11 },
    }));
    if (data.limit !== null) {
      shapes.push({
        type: "line", xref: "paper", x0: 0, x1: 1, y0: data.limit, y1: data.limit,
        line: { color: style.limit, width: 2, dash: "dash" },
      });
      annotations.push({
        x: 1, xref: "paper", xanchor: "right", y: data.limit, yanchor: "bottom", showarrow: false,
        text: plain(data.limit_words), font: { color: style.limit, size: 12 },
        bgcolor: style.panel,
      });
    }
    Plotly.react(element, traces, {
      paper_bgcolor: style.panel,
      plot_bgcolor: style.panel,
      font: { color: style.ink, size: 12, family: "system-ui, sans-serif" },
      margin: { l: 52, r: 10, t: 24, b: 40 },
      hovermode: "closest",
      hoverlabel: { align: "left", namelength: -1 },
      xaxis: {
        ...axis, title: { text: "operation of the step", standoff: 6 }, automargin: true,
        nticks: element.clientWidth < NARROW_PX ? 4 : 8, tickangle: 0,
      },
      yaxis: { ...axis, title: { text: data.unit, standoff: 6 }, rangemode: "tozero", automargin: true },
      shapes,
      annotations,
    }, { responsive: true, displayModeBar: false });
  }

  document.addEventListener("change", (event) => {
    if (event.target.name === "theme") {
      root.dataset.theme = event.target.value;
      draw();
    }
  });
  document.querySelector(".controls").addEventListener("submit", (e) => e.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", () => { if (element) Plotly.Plots.resize(element); });
  root.dataset.theme = chosen();
  draw();
  root.dataset.drawn = "yes";
})();
