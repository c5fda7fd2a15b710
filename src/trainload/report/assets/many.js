"use strict";
// The page of many runs: curves over each other, the layers of one, one run opened at a time.
(() => {
  const { data, plain, style, chosen, link, drawLate, redraw, drawEvery, element, COLOURS } = trainload;
  const { ofRun, together, cores, unitFor, number } = trainload.curves;
  const MOST_LINES = 16;
  const MANY_CORES = 8;
  const NARROW_PX = 420;
  const BAND = "2e"; // opacity of a band, in hexadecimal
  const FEW_LINES = 4; // with fewer, bands are shown at first
  const CONFIG = { responsive: true, displayModeBar: false, scrollZoom: false };
  const byId = (id) => document.getElementById(id);
  let bandsChosen = false; // by the reader, and not by the number of lines
  const hidden = new Set(); // names of lines that are switched off
  let lines = [];
  const zoom = trainload.newGroup();

  function windowSize() {
    const word = chosen("smoothing");
    if (word === "none") return 1;
    return word === "own" ? Math.max(1, Number(byId("window").value) || 1) : Number(word);
  }

  // What is one line: a level of the chosen factor, or a run.
  function chooseLines() {
    const choice = byId("lines").value;
    const runs = [...trainload.shownRuns].map((at) => data.runs[at]);
    const groups = new Map();
    runs.forEach((run) => {
      const factor = data.factors[choice];
      const level = factor ? run.levels[Number(choice)] : 0;
      const name = factor ? (factor.levels[level] ?? "not known") : run.name;
      const key = factor ? `${level}` : `${data.runs.indexOf(run)}`;
      if (!groups.has(key)) groups.set(key, { name, at: factor ? level : groups.size, runs: [] });
      groups.get(key).runs.push(run);
    });
    const all = [...groups.values()].sort((a, b) => a.at - b.at);
    lines = all.slice(0, MOST_LINES);
    lines.forEach((line, at) => { line.colour = at; });
    // Bands of many lines cover each other.
    if (!bandsChosen) byId("bands").checked = lines.length < FEW_LINES;
    const what = data.factors[choice] ? "levels" : "runs";
    const more = all.length > lines.length ? ` of ${all.length}; filter to choose others` : "";
    byId("drawn").textContent = `${lines.length} ${what} drawn${more}, from ${runs.length} runs`;
    const legend = byId("lines-legend");
    legend.replaceChildren(...lines.map((line) => {
      const box = element("input", { type: "checkbox" });
      box.checked = !hidden.has(line.name);
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(line.name); else hidden.add(line.name);
        redraw();
      });
      const dotted = line.colour >= COLOURS ? " dotted" : "";
      const swatch = element("span", { class: `swatch s${line.colour % COLOURS}${dotted}` });
      const count = data.factors[choice] ? ` (${line.runs.length})` : "";
      return element("label", {}, box, swatch, element("bdi", {}, `${line.name}${count}`));
    }));
  }

  function bandOf(curve, worth, color) {
    const x = [];
    const y = [];
    const close = (from, to) => {
      if (to - from < 2) return;
      if (x.length) { x.push(null); y.push(null); }
      for (let at = from; at < to; at += 1) { x.push(curve.x[at]); y.push(curve.high[at] / worth); }
      for (let at = to - 1; at >= from; at -= 1) { x.push(curve.x[at]); y.push(curve.low[at] / worth); }
    };
    let from = 0;
    curve.x.forEach((_, at) => {
      if (Number.isNaN(curve.high[at])) { close(from, at); from = at + 1; }
    });
    close(from, curve.x.length);
    return {
      type: "scatter", x, y, fill: "toself", fillcolor: color + BAND, mode: "none",
      hoverinfo: "skip", showlegend: false, meta: "band",
    };
  }

  function tracesOf(curves, worth, look, unit, bands = true) {
    const traces = [];
    const scaled = (list) => Array.from(list, (v) => (Number.isNaN(v) ? null : v / worth));
    curves.forEach(({ curve, name, colour }) => {
      const color = look.series[colour % COLOURS];
      const line = { color, dash: colour < COLOURS ? "solid" : "dot" };
      const smooth = curve.raw && curve.raw !== curve.y && curve.raw.some((v, at) => v !== curve.y[at]);
      if (curve.thinned && bands) traces.push(bandOf(curve, worth, color));
      else if (smooth && !curve.thinned) {
        traces.push({
          type: "scatter", x: curve.x, y: scaled(curve.raw), mode: "lines", opacity: 0.3,
          line: { ...line, width: 1 }, hoverinfo: "skip", showlegend: false, meta: "raw",
        });
      }
      traces.push({
        type: "scatter", x: curve.x, y: scaled(curve.y), connectgaps: false, showlegend: false,
        mode: curve.x.length < 40 ? "lines+markers" : "lines", marker: { size: 4 },
        line: { ...line, width: smooth || curve.thinned ? 2.2 : 1.5 }, name: plain(name), meta: "line",
        hovertemplate: `${plain(name)}<br>%{y:.4~g} ${plain(unit)}<extra></extra>`,
      });
    });
    return traces;
  }

  function layoutOf(canvas, look, unit, axisTitle, more = {}) {
    const axis = trainload.axisOf(look);
    return {
      ...trainload.frameOf(look),
      xaxis: {
        ...axis, title: { text: axisTitle, standoff: 6 }, automargin: true, tickangle: 0,
        nticks: canvas.clientWidth < NARROW_PX ? 5 : 8, rangemode: "tozero",
      },
      yaxis: { ...axis, title: { text: plain(unit), standoff: 6 }, automargin: true, rangemode: "tozero" },
      ...more,
    };
  }

  function show(canvas, traces, layout, group) {
    if (group && group.range) layout.xaxis.range = [...group.range];
    Plotly.react(canvas, traces, layout, CONFIG);
    if (group) link(canvas, group);
  }

  const axisTitle = () => (chosen("axis") === "time" ? "time since the start (s)" : "iteration");

  function figure(id, title, origin, kind = "") {
    const canvas = element("div", { class: `canvas ${kind}`, id, role: "img", "aria-label": title });
    const head = element("h3", origin ? { title: origin } : {}, title, trainload.imageButtons(id, title));
    return element("figure", {}, head, canvas);
  }

  // A table of plain text; the first column are headings.
  function tableOf(label, titles, rows) {
    const cells = (row) => row.map((text, at) =>
      element(at ? "td" : "th", at ? { class: "number" } : { scope: "row" }, text));
    const head = titles.map((text, at) => element("th", { scope: "col", ...(at && { class: "number" }) }, text));
    const table = element("table", {},
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))));
    return element("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": label }, table);
  }

  function drawQuantity(at, place) {
    const quantity = data.quantities[at];
    const axis = chosen("axis");
    const w = windowSize();
    const curves = [];
    lines.forEach((line) => {
      const found = line.runs.map((run) => ofRun(run, at, axis, w)).filter((c) => c && c.x.length);
      if (found.length) curves.push({ ...line, curve: together(found) });
    });
    let highest = 0;
    curves.forEach(({ curve }) => curve.high.forEach((v) => { if (v > highest) highest = v; }));
    const [unit, worth] = unitFor(quantity.unit, highest);
    const canvas = place.querySelector(".canvas");
    const drawn = curves.filter(({ name }) => !hidden.has(name));
    const look = style();
    const traces = tracesOf(drawn, worth, look, unit, byId("bands").checked);
    show(canvas, traces, layoutOf(canvas, look, unit, axisTitle()), zoom);
    const rows = curves.map(({ name, curve }) => [
      name, String(curve.runs), ...(curve.figures
        ? curve.figures.map((v) => `${number(v / worth)} ${unit}`) : ["–", "–", "–"]),
    ]);
    const titles = ["line", "runs", "min", "mean", "max"];
    place.querySelector(".box").replaceChildren(tableOf(`Figures of ${quantity.title}`, titles, rows));
  }

  const places = [];
  const has = (run, at) => [run.samples, run.steps].some((s) => s && s.cols[at]);
  function placeCurves() {
    const holder = byId("curve-plots");
    data.quantities.forEach((quantity, at) => {
      if (!data.runs.some((run) => has(run, at))) return;
      const place = figure(`curve-${at}`, quantity.title, quantity.origin);
      place.append(element("details", {}, element("summary", {}, "min, mean and max in training"),
        element("div", { class: "box" })));
      holder.append(place);
      places.push([at, place]);
      drawLate(place.querySelector(".canvas"), () => drawQuantity(at, place));
    });
    if (!places.length) holder.append(element("p", { class: "quiet" }, "No run has samples or steps."));
  }

  function placesShown() {
    const runs = [...trainload.shownRuns].map((at) => data.runs[at]);
    places.forEach(([at, place]) => { place.hidden = !runs.some((run) => has(run, at)); });
  }

  // Layers of one run; their places are made anew, since runs differ in what they have.
  function showLayers() {
    const select = byId("layer-run");
    if (!select) return;
    const entry = data.layers[Number(select.value)];
    const group = trainload.newGroup();
    byId("layer-plots").replaceChildren(...entry.figures.map((curves, at) => {
      const place = figure(`layer-${at}`, curves.title, "");
      const legend = element("div", { class: "legend" }, ...curves.names.map((name, n) =>
        element("span", { class: "entry" }, element("span", { class: `swatch s${n % COLOURS}` }),
          element("bdi", {}, name))));
      place.append(legend);
      const canvas = place.querySelector(".canvas");
      drawLate(canvas, () => {
        const look = style();
        const unit = curves.percent ? "%" : curves.axis;
        const traces = curves.values.map((values, n) => ({
          type: "scatter", mode: values.length < 60 ? "lines+markers" : "lines", marker: { size: 4 },
          x: entry.steps, y: values.map((v) => (v === null || !curves.percent ? v : 100 * v)),
          name: plain(curves.names[n]), showlegend: false,
          line: { color: look.series[n % COLOURS], width: 1.6 },
          hovertemplate: `${plain(curves.names[n])}<br>%{y:.4~g} ${unit}<extra></extra>`,
        }));
        show(canvas, traces, layoutOf(canvas, look, unit, "iteration"), group);
      });
      return place;
    }));
  }

  // Quantities of one run that share a plot.
  function kindOf(quantity) {
    const { title, unit } = quantity;
    if (/swap/i.test(title)) return "Swap";
    if (unit === "fraction") return /^GPU/.test(title) ? "GPU load" : "CPU and other loads";
    if (unit === "bytes") return /^GPU/.test(title) ? "GPU memory" : "Memory";
    return { W: "Power by rail", "°C": "Temperature", s: "Step time", "1/s": "Throughput" }[unit] || title;
  }

  function corePlot(run, group) {
    const { x, rows } = cores(run.cores);
    const many = rows.length > MANY_CORES;
    const place = figure("one-cores", "CPU load by core", "host meters, mean over each point", many ? "heat" : "");
    if (!many) {
      place.append(element("div", { class: "legend" }, ...run.cores.names.map((name, n) =>
        element("span", { class: "entry" }, element("span", { class: `swatch s${n % COLOURS}` }), `core ${name}`))));
    }
    const canvas = place.querySelector(".canvas");
    drawLate(canvas, () => {
      const look = style();
      const names = run.cores.names.map((n) => `core ${n}`);
      const traces = many
        ? [{
          type: "heatmap", x, y: names, z: rows.map((row) => row.map((v) => (v === null ? null : 100 * v))),
          zmin: 0, zmax: 100, colorscale: "Viridis", colorbar: { title: { text: "%" }, thickness: 10 },
          hovertemplate: "%{y}<br>%{z:.0f} %<extra></extra>",
        }]
        : rows.map((row, n) => ({
          type: "scatter", mode: "lines", x, y: row.map((v) => (v === null ? null : 100 * v)),
          name: names[n], showlegend: false, line: { color: look.series[n % COLOURS], width: 1.5 },
          hovertemplate: `${names[n]}<br>%{y:.0f} %<extra></extra>`,
        }));
      const layout = layoutOf(canvas, look, many ? "" : "%", "time since the start (s)");
      if (many) layout.yaxis.type = "category";
      show(canvas, traces, layout, chosen("axis") === "time" ? group : null);
    });
    return place;
  }

  function showOne() {
    const select = byId("one-run");
    if (!select) return;
    const at = Number(select.value);
    const run = data.runs[at];
    const row = document.querySelector(`tr[data-run="${at}"]`);
    const heads = [...document.querySelectorAll("#runs-table thead th")].map((th) => th.textContent);
    byId("one-facts").replaceChildren(...[...row.cells].map((cell, n) =>
      element("div", {}, element("dt", {}, heads[n]), element("dd", {}, cell.textContent || "–"))));
    const kinds = new Map();
    data.quantities.forEach((quantity, key) => {
      if (!has(run, key)) return;
      const kind = kindOf(quantity);
      if (!kinds.has(kind)) kinds.set(kind, []);
      kinds.get(kind).push(key);
    });
    const group = trainload.newGroup();
    const made = [...kinds].map(([kind, keys], n) => {
      const place = figure(`one-${n}`, kind, keys.map((key) => data.quantities[key].origin).join("; "));
      place.append(element("div", { class: "legend" }, ...keys.map((key, colour) =>
        element("span", { class: "entry" }, element("span", { class: `swatch s${colour % COLOURS}` }),
          element("bdi", {}, data.quantities[key].title)))));
      const canvas = place.querySelector(".canvas");
      drawLate(canvas, () => {
        const curves = keys.map((key, colour) => ({
          curve: ofRun(run, key, chosen("axis"), windowSize()), colour, name: data.quantities[key].title,
        }));
        let highest = 0;
        curves.forEach(({ curve }) => curve.high.forEach((v) => { if (v > highest) highest = v; }));
        const [unit, worth] = unitFor(data.quantities[keys[0]].unit, highest);
        const look = style();
        show(canvas, tracesOf(curves, worth, look, unit), layoutOf(canvas, look, unit, axisTitle()), group);
      });
      return place;
    });
    if (run.cores) made.splice(1, 0, corePlot(run, group));
    byId("one-plots").replaceChildren(...(made.length ? made
      : [element("p", { class: "quiet" }, "This run left no samples and no steps.")]));
  }

  function openRun(at, scroll) {
    const select = byId("one-run");
    if (select) {
      select.value = String(at);
      showOne();
      if (scroll) byId("one").scrollIntoView();
    } else {
      const block = document.querySelectorAll("details.full")[at];
      if (block) { block.open = true; block.scrollIntoView(); }
    }
  }

  function step(by) {
    const runs = [...trainload.shownRuns].sort((a, b) => a - b);
    if (!runs.length) return;
    const now = runs.indexOf(Number(byId("one-run").value));
    openRun(runs[(now + by + runs.length) % runs.length], false);
  }

  if (data.runs.length) {
    document.querySelectorAll("#runs-table tbody th.opens").forEach((cell) => {
      const at = Number(cell.parentElement.dataset.run);
      const open = element("button", { type: "button", class: "open-run" }, ...cell.childNodes);
      open.addEventListener("click", () => openRun(at, true));
      cell.append(open);
    });
    placeCurves();
    chooseLines();
    placesShown();
    showLayers();
    showOne();
    byId("lines").addEventListener("change", () => { hidden.clear(); chooseLines(); redraw(); });
    byId("bands").addEventListener("change", () => { bandsChosen = true; redraw(); });
    byId("layer-run")?.addEventListener("change", showLayers);
    byId("one-run")?.addEventListener("change", showOne);
    byId("before")?.addEventListener("click", () => step(-1));
    byId("next")?.addEventListener("click", () => step(1));
    document.addEventListener("runs-shown", () => { chooseLines(); placesShown(); redraw(); });
    document.addEventListener("change", (event) => {
      const name = event.target.name;
      if (name === "axis") { zoom.range = null; }
      if (["axis", "smoothing", "theme"].includes(name)) redraw();
    });
    byId("window").addEventListener("input", () => {
      document.querySelector('input[name="smoothing"][value="own"]').checked = true;
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", drawEvery);
  }
  trainload.root.dataset.many = "yes";
})();
