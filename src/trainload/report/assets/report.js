"use strict";
// Draws plots from the embedded data and redraws when a control changes; of many, those near view.
(() => {
  const COLOURS = 8;
  const BANDS = 4;
  const FEW_POINTS = 60;
  const NARROW_PX = 420;
  const RAW_BESIDE_AVERAGE = 0.3;
  const runs = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const plots = [];
  const icicles = [];
  const PARTS = 13;
  const PHASES = [0, 1, 2, 8]; // places of forward, backward, update and idle among the parts
  const MANY_MODULES = 300; // borders must not cover them
  const TINT = 0.3; // of a phase's colour in that of the modules it dominates
  const THINNEST = 1 / 4000; // of the step; a thinner piece would not be seen
  const FEW_PLOTS = 60; // up to here all are drawn at once; of more those near view, and so many kept
  const NEAR = "800px"; // how far beyond the window a plot is drawn already

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
      module: read("--module"),
      series: Array.from({ length: COLOURS }, (_, at) => read(`--s${at}`)),
      bands: Array.from({ length: BANDS }, (_, at) => read(`--b${at}`)),
      parts: Array.from({ length: PARTS }, (_, at) => read(`--p${at}`)),
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

  const scaled = (value, units) => {
    const [unit, worth] = units.find(([, w]) => Math.abs(value) >= w) || units[units.length - 1];
    return `${Number((value / worth).toPrecision(3))} ${unit}`;
  };
  const seconds = (ns) => scaled(ns, [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]]);
  const bytes = (n) => scaled(n, [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["bytes", 1]]);
  const joules = (j) => scaled(j, [["kJ", 1e3], ["J", 1], ["mJ", 1e-3]]);
  const MEMORY = ["parameters", "weights", "gradients", "optimizer state", "activations kept", "peak"];

  function hoverOf(tree, at, total, whole) {
    const [, label, kind, ...own] = tree.items[at];
    const share = (ns) => `${((100 * ns) / whole).toFixed(1)} %`;
    const lines = [
      `<b>${plain(label)}</b>${label.endsWith(kind) ? "" : ` ${plain(kind)}`}`,
      `with everything below: ${seconds(total)}, ${share(total)}`,
    ];
    PHASES.forEach((part, n) => {
      if (own[n]) lines.push(`itself, ${plain(tree.parts[part])}: ${seconds(own[n])}`);
    });
    (tree.memory[at] || []).forEach((value, n) => {
      if (value) lines.push(`${MEMORY[n]}: ${n ? bytes(value) : value.toLocaleString("en")}`);
    });
    const energy = tree.energy[at];
    if (energy) {
      lines.push(`${joules(energy[0])} (${joules(energy[1])} … ${joules(energy[2])})`);
    }
    return lines.join("<br>");
  }

  // Colours are #rrggbb.
  function mixed(one, other, part) {
    const channel = (at) => {
      const [a, b] = [one, other].map((colour) => parseInt(colour.slice(at, at + 2), 16));
      return Math.round(a + (b - a) * part).toString(16).padStart(2, "0");
    };
    return `#${channel(1)}${channel(3)}${channel(5)}`;
  }

  // Times of every item with all below it: forward, backward, update, idle, folded away.
  function sumsOf(tree) {
    const sums = tree.items.map((item) => [0, 1, 2, 3, 4].map((n) => item[3 + n] || 0));
    for (let at = sums.length - 1; at >= 0; at -= 1) {
      const parent = tree.items[at][0];
      if (parent >= 0) sums[at].forEach((ns, n) => { sums[parent][n] += ns; });
    }
    return sums;
  }

  // A parent's value is the exact sum of its children, in nanoseconds: else Plotly draws nothing.
  function icicleTrace(tree, look) {
    const sums = sumsOf(tree);
    const totals = sums.map((of) => of.reduce((a, b) => a + b, 0));
    const tint = (of) => {
      const most = of.indexOf(Math.max(...of));
      return most < 4 ? mixed(look.module, look.parts[PHASES[most]], TINT) : look.module;
    };
    let whole = tree.rest.reduce((sum, rest) => sum + (rest[3] < 0 ? rest[2] : 0), 0);
    tree.items.forEach((item, at) => { if (item[0] < 0) whole += totals[at]; });
    const trace = { ids: [], labels: [], parents: [], values: [], hovertext: [] };
    const colors = [];
    const add = (id, label, parent, value, hover, color) => {
      trace.ids.push(id);
      trace.labels.push(plain(label));
      trace.parents.push(parent);
      trace.values.push(value);
      trace.hovertext.push(hover);
      colors.push(color);
    };
    const piece = (id, part, label, parent, ns) => {
      const hover = `${plain(label)}: ${seconds(ns)}, ${((100 * ns) / whole).toFixed(1)} %`;
      add(id, label, parent, ns, hover, look.parts[part]);
    };
    add("step", "step", "", whole, `step: ${seconds(whole)}`, look.module);
    tree.items.forEach((item, at) => {
      if (totals[at] < whole * THINNEST) return;
      const parent = item[0] < 0 ? "step" : `m${item[0]}`;
      const hover = hoverOf(tree, at, totals[at], whole);
      add(`m${at}`, item[1], parent, totals[at], hover, tint(sums[at]));
      PHASES.forEach((part, n) => {
        const ns = item[3 + n];
        if (ns >= whole * THINNEST) piece(`m${at}p${n}`, part, tree.parts[part], `m${at}`, ns);
      });
    });
    tree.rest.forEach(([part, label, ns, above], at) => {
      const parent = above < 0 ? "step" : `r${above}`;
      if (ns >= whole * THINNEST) piece(`r${at}`, part, label, parent, ns);
    });
    return {
      ...trace,
      type: "icicle",
      branchvalues: "total",
      sort: false,
      hovertemplate: "%{hovertext}<extra></extra>",
      texttemplate: "%{label} · %{percentRoot:.0%}",
      tiling: { orientation: "h", pad: 0 },
      leaf: { opacity: 1 },
      pathbar: { thickness: 22, textfont: { color: look.ink } },
      root: { color: look.module },
      marker: { colors, line: { width: totals.length > MANY_MODULES ? 0.3 : 1, color: look.panel } },
    };
  }

  function drawIcicle(icicle, look) {
    const trace = icicleTrace(icicle.tree, look);
    const width = icicle.element.clientWidth;
    trace.maxdepth = width < NARROW_PX ? 3 : width < 2 * NARROW_PX ? 5 : 8;
    Plotly.react(icicle.element, [trace], {
      paper_bgcolor: look.panel,
      font: { color: look.ink, size: 12, family: "system-ui, sans-serif" },
      margin: { l: 0, r: 0, t: 26, b: 0 },
      hoverlabel: { align: "left", namelength: -1 },
      uniformtext: { minsize: 10, mode: "hide" },
      uirevision: "kept",
    }, { responsive: true, displayModeBar: false });
  }

  // A plot in a closed element has no size: it is drawn when that opens.
  const seen = (plot) => !plot.element.closest("details:not([open])");
  const drawn = new Set(); // in the order they were drawn
  const near = new Set();
  const byElement = new Map();
  let watch = null; // where there are many

  function drawOne(plot, look) {
    (plot.tree ? drawIcicle : draw)(plot, look);
    drawn.delete(plot);
    drawn.add(plot);
  }

  function drawAll(within = document, every = watch === null) {
    const look = style();
    const wanted = (p) => (every || near.has(p)) && seen(p) && within.contains(p.element);
    // What is far and was drawn before is out of date now: it is drawn anew when it comes near.
    if (!every && within === document) [...drawn].filter((p) => !near.has(p)).forEach(forget);
    byElement.forEach((plot) => { if (wanted(plot)) drawOne(plot, look); });
  }

  function forget(plot) {
    Plotly.purge(plot.element);
    plot.element.replaceChildren();
    drawn.delete(plot);
  }

  function watchPlots() {
    watch = new IntersectionObserver((entries) => {
      const look = style();
      entries.forEach((entry) => {
        const plot = byElement.get(entry.target);
        if (!entry.isIntersecting) {
          near.delete(plot);
        } else {
          near.add(plot);
          if (!drawn.has(plot)) drawOne(plot, look);
        }
      });
      const far = [...drawn].filter((plot) => !near.has(plot));
      far.slice(0, Math.max(0, drawn.size - FEW_PLOTS)).forEach(forget);
    }, { rootMargin: NEAR });
    byElement.forEach((_, element) => watch.observe(element));
  }

  function sortTable(button) {
    const column = Number(button.dataset.sort);
    const head = button.closest("th");
    const order = head.getAttribute("aria-sort") === (column ? "descending" : "ascending")
      ? (column ? "ascending" : "descending")
      : (column ? "descending" : "ascending");
    head.parentElement.querySelectorAll("th").forEach((th) => th.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const body = head.closest("table").tBodies[0];
    const keyed = [...body.rows].map((row) => {
      const cell = row.cells[column];
      return [column ? Number(cell.dataset.v ?? NaN) : cell.textContent, row];
    });
    keyed.sort(([a], [b]) => {
      if (!column) return sign * a.localeCompare(b, "en", { numeric: true });
      // What is missing stands last, whichever way is sorted.
      return Number.isNaN(a) || Number.isNaN(b)
        ? Number.isNaN(a) - Number.isNaN(b)
        : sign * (a - b);
    });
    body.append(...keyed.map(([, row]) => row));
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
    run.trees.forEach((tree, at) => {
      const element = document.getElementById(`run-${runAt + 1}-tree-${at}`);
      if (element) icicles.push({ tree, element });
    });
  });

  document.addEventListener("change", (event) => {
    const input = event.target;
    if (input.name === "theme") root.dataset.theme = input.value;
    if (input.dataset.plot) {
      const plot = plots.find((p) => p.element.id === input.dataset.plot);
      const at = Number(input.dataset.series);
      if (input.checked) plot.hidden.delete(at); else plot.hidden.add(at);
      drawOne(plot, style());
    } else {
      drawAll();
    }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-sort]");
    if (button) sortTable(button);
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.open) drawAll(event.target);
  }, true);
  document.querySelector(".controls").addEventListener("submit", (e) => e.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    drawAll(document, true);
    drawn.forEach((plot) => Plotly.Plots.resize(plot.element));
  });
  // A reload may restore controls from before.
  root.dataset.theme = chosen("theme");
  document.querySelectorAll(".legend input").forEach((input) => { input.checked = true; });
  [...plots, ...icicles].forEach((plot) => byElement.set(plot.element, plot));
  if (byElement.size > FEW_PLOTS) watchPlots(); else drawAll();
  root.dataset.drawn = "yes";
})();
