"use strict";
// Draws the choices of a recommendation by time and money or energy; again when the theme changes.
(() => {
  const { data, plain, style, frameOf, axisOf, root, chosen } = trainload;
  const element = document.getElementById("front");

  function ends(values) {
    return {
      type: "data", symmetric: false, thickness: 1, width: 0,
      array: values.map(([value, , high]) => high - value),
      arrayminus: values.map(([value, low]) => value - low),
    };
  }

  function draw() {
    if (!element) return;
    const look = style();
    const middle = (values) => values.map(([value]) => value);
    const few = data.names.length <= 12;
    // Ranges of many choices would hide them.
    const faint = { color: few ? look.quiet : look.grid };
    const trace = {
      type: "scatter", mode: "markers+text", x: middle(data.x), y: middle(data.y),
      error_x: { ...ends(data.x), ...faint }, error_y: { ...ends(data.y), ...faint },
      text: data.names.map((name, at) => (few || data.named[at] || data.first[at] ? plain(name) : "")),
      textposition: "top center", textfont: { color: look.ink, size: 11 },
      customdata: data.names.map((name, at) => plain(`${name}: ${data.words[at]}`)),
      hovertemplate: `%{customdata}<br>%{x:.3g} h, %{y:.3g} ${data.unit}<extra></extra>`,
      marker: {
        size: data.first.map((first) => (first ? 13 : 8)),
        color: data.front.map((front) => (front ? look.series[0] : look.panel)),
        line: { color: data.first.map((first) => (first ? look.series[1] : look.series[0])), width: 2 },
      },
      cliponaxis: false, showlegend: false,
    };
    const limit = { color: look.series[1], width: 1.5, dash: "dash" };
    const shapes = [];
    if (data.deadline_h > 0) {
      shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: data.deadline_h, x1: data.deadline_h, line: limit });
    }
    if (data.budget > 0) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: data.budget, y1: data.budget, line: limit });
    }
    const axis = { ...axisOf(look), type: "log", automargin: true };
    Plotly.react(element, [trace], {
      ...frameOf(look),
      margin: { l: 52, r: 24, t: 24, b: 44 },
      xaxis: { ...axis, title: { text: "hours", standoff: 6 } },
      yaxis: { ...axis, title: { text: data.unit, standoff: 6 } },
      shapes,
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
  root.dataset.theme = chosen("theme");
  draw();
  root.dataset.drawn = "yes";
})();
