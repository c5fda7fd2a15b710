// Asks for the run once a second and draws it; every word is put in as text, never as HTML.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg", WIDTH = 600, HEIGHT = 150;
  const place = (id) => document.getElementById(id);

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function path(points, chart, className) {
    const across = Math.max(chart.last_s - chart.first_s, 1e-9), up = Math.max(chart.high - chart.low, 1e-12);
    const made = document.createElementNS(SVG, "path");
    made.setAttribute("class", className);
    made.setAttribute("d", points.map(([t, value], at) =>
      `${at ? "L" : "M"}${((t - chart.first_s) / across * WIDTH).toFixed(1)} ` +
      `${(4 + (chart.high - value) / up * (HEIGHT - 8)).toFixed(1)}`).join(""));
    return made;
  }

  function drawChart(chart) {
    const figure = element("figure");
    figure.dataset.name = chart.name;
    const caption = element("figcaption");
    caption.append(element("b", chart.title));
    figure.append(caption);
    if (chart.empty !== null) {
      figure.append(element("p", chart.empty, "empty"));
      return figure;
    }
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${chart.title}: ${chart.series.map((one) => one.label).join(", ")}`);
    chart.limits.forEach((limit) =>
      svg.append(path([[chart.first_s, limit], [chart.last_s, limit]], chart, "limit")));
    chart.series.forEach((one, at) => {
      caption.append(element("span", `● ${one.label}`, `c${at % 4}`));
      // A single point has no length: drawn as a short line it can be seen.
      const points = one.points.length === 1 ? [one.points[0], [one.points[0][0] + 0.01, one.points[0][1]]] : one.points;
      svg.append(path(points, chart, `line c${at % 4}`));
    });
    const axis = element("div", undefined, "axis");
    axis.append(element("span", `${chart.from} – ${chart.to}`), element("span", `${chart.lowest} … ${chart.highest}`));
    figure.append(svg, axis);
    return figure;
  }

  function drawTable(table) {
    const box = element("div");
    box.append(element("h2", table.title));
    if (table.note) box.append(element("p", table.note, "empty"));
    if (table.rows.length) {
      const made = element("table"), scroll = element("div", undefined, "scroll");
      const row = (cells, kind) => {
        const line = element("tr");
        cells.forEach((cell, at) => line.append(element(kind, cell, table.right.includes(at) ? "right" : "")));
        return line;
      };
      made.append(row(table.columns, "th"), ...table.rows.map((cells) => row(cells, "td")));
      scroll.append(made);
      box.append(scroll);
    }
    return box;
  }

  function draw(run) {
    document.title = `${run.title} – trainload live`;
    place("title").textContent = run.title;
    place("standing").textContent = run.standing;
    place("standing").className = run.good ? "" : "bad";
    place("figures").replaceChildren(...run.figures.map(([name, value]) => {
      const pair = element("div");
      pair.append(element("dt", name), element("dd", value));
      return pair;
    }));
    place("charts").replaceChildren(...run.charts.map(drawChart));
    place("tables").replaceChildren(...run.tables.map(drawTable));
    place("notes").querySelector("ul").replaceChildren(...run.notes.map((note) => element("li", note)));
    place("notes").hidden = !run.notes.length;
    document.documentElement.dataset.drawn = "yes";
    document.documentElement.dataset.running = run.running ? "yes" : "no";
  }

  async function look() {
    let wait = 1000;
    try {
      if (!document.hidden || !document.documentElement.dataset.drawn) {
        const answer = await fetch("data.json", { cache: "no-store" });
        const run = await answer.json();
        draw(run);
        wait = run.running ? 1000 : 5000;
      }
    } catch {
      place("standing").textContent = "no longer served: what stands here is the last that was seen";
      place("standing").className = "bad";
      wait = 5000;
    }
    setTimeout(look, wait);
  }
  look();
})();
