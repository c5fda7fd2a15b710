"use strict";
// Draws plots from the embedded data and redraws when a control changes; of many, those near view.
(() => {
  const { COLOURS, BANDS, root, chosen, plain, style, link, newGroup } = trainload;
  const FEW_POINTS = 60;
  const NARROW_PX = 420;
  const RAW_BESIDE_AVERAGE = 0.3;
  const runs = trainload.data.full;
  const plots = [];
  const icicles = [];
  const PHASES = [0, 1, 2, 8]; // places of forward, backward, update and idle among the parts
  const MANY_MODULES = 300; // borders must not cover them
  const TINT = 0.3; // of a phase's colour in that of the modules it dominates
  const THINNEST = 1 / 4000; // of the step; a thinner piece would not be seen
  const FEW_PLOTS = 60; // up to here all are drawn at once; of more those near view, and so many kept
  const NEAR = "800px"; // how far beyond the window a plot is drawn already

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
    const line = trainload.axisOf(look);
    const y = { ...line, title: { text: plot.figure.axis, standoff: 6 }, automargin: true };
    if (plot.figure.percent) {
      y.tickformat = ".0%";
      y.range = [0, Math.max(1.02, plot.highest * 1.05)];
    } else {
      y.rangemode = "tozero";
    }
    return {
      ...trainload.frameOf(look),
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

  // Cores over time, where they are too many for lines.
  function heatOf(plot) {
    const [first] = plot.figure.series;
    const rows = plot.figure.series.filter((series) => series.grid === first.grid);
    return [{
      type: "heatmap",
      x: plot.run.grids[first.grid][chosen("axis")],
      y: rows.map((series) => plain(series.name)),
      z: rows.map((series) => series.raw),
      colorscale: "Viridis",
      colorbar: { tickformat: plot.figure.percent ? ".0%" : undefined, thickness: 10 },
      hovertemplate: `%{y}<br>%{z:${plot.figure.percent ? ".0%" : ".4~g"}}<extra></extra>`,
      ...(plot.figure.percent && { zmin: 0, zmax: 1 }),
    }];
  }

  function draw(plot, look) {
    const layout = layoutOf(plot, look);
    if (plot.figure.heat) layout.yaxis = { type: "category", automargin: true, gridcolor: look.grid };
    if (plot.run.zoom.range) layout.xaxis.range = [...plot.run.zoom.range];
    Plotly.react(plot.element, plot.figure.heat ? heatOf(plot) : tracesOf(plot, look), layout, {
      responsive: true, displayModeBar: false, scrollZoom: false,
    });
    link(plot.element, plot.run.zoom);
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
    plot.run?.zoom.members.delete(plot.element);
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

  runs.forEach((run, runAt) => {
    run.zoom = newGroup();
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
    if (input.name === "axis") runs.forEach((run) => { run.zoom.range = null; });
    if (input.dataset.plot) {
      const plot = plots.find((p) => p.element.id === input.dataset.plot);
      const at = Number(input.dataset.series);
      if (input.checked) plot.hidden.delete(at); else plot.hidden.add(at);
      drawOne(plot, style());
    } else if (["theme", "axis", "smoothing"].includes(input.name)) {
      drawAll();
    }
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.open) drawAll(event.target);
  }, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    drawAll(document, true);
    drawn.forEach((plot) => Plotly.Plots.resize(plot.element));
  });
  // A reload may restore controls from before.
  root.dataset.theme = chosen("theme");
  document.querySelectorAll(".legend input[data-plot]").forEach((input) => { input.checked = true; });
  [...plots, ...icicles].forEach((plot) => byElement.set(plot.element, plot));
  if (byElement.size > FEW_PLOTS) watchPlots(); else drawAll();
  root.dataset.drawn = "yes";
})();
