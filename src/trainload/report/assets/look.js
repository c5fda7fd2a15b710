"use strict";
// What every plot of a page shares: its data, colours, safe text, linked zoom, images, drawing late.
const trainload = (() => {
  const COLOURS = 8;
  const BANDS = 4;
  const PARTS = 13;
  const NEAR = "500px"; // how far beyond the window a plot is drawn already
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
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

  // What the layouts of line plots share; an axis begins with `axisOf`.
  const frameOf = (look) => ({
    paper_bgcolor: look.panel,
    plot_bgcolor: look.panel,
    font: { color: look.ink, size: 12, family: "system-ui, sans-serif" },
    margin: { l: 48, r: 10, t: 8, b: 40 },
    hovermode: "closest",
    hoverlabel: { align: "left", namelength: -1 },
  });
  const axisOf = (look) => ({
    gridcolor: look.grid, zerolinecolor: look.grid, linecolor: look.quiet,
  });

  // Plots of one group show the same stretch of their horizontal axes.
  const newGroup = () => ({ members: new Set(), range: null });
  function link(element, group) {
    if (group.members.has(element)) return;
    group.members.add(element);
    element.on("plotly_relayout", (event) => {
      const from = event["xaxis.range[0]"] ?? event["xaxis.range"]?.[0];
      const to = event["xaxis.range[1]"] ?? event["xaxis.range"]?.[1];
      const range = from === undefined ? null : [from, to];
      if (range === null && !event["xaxis.autorange"]) return;
      if (String(range) === String(group.range)) return;
      group.range = range;
      const change = range ? { "xaxis.range": range } : { "xaxis.autorange": true };
      group.members.forEach((other) => {
        if (!other.isConnected) group.members.delete(other);
        else if (other !== element && other.layout) Plotly.relayout(other, change);
      });
    });
  }

  // A plot is drawn when it comes near the window, and again when what it shows has changed.
  const late = new Map();
  const observer = new IntersectionObserver((entries) => {
    entries.forEach((entry) => {
      const plot = late.get(entry.target);
      if (!plot) return;
      plot.near = entry.isIntersecting;
      drawIfDue(plot);
    });
  }, { rootMargin: NEAR });
  function drawIfDue(plot) {
    if (!plot.near || !plot.due) return;
    plot.due = false;
    plot.draw();
  }
  function drawLate(element, draw) {
    late.set(element, { draw, due: true, near: false });
    observer.observe(element);
  }
  function redraw() {
    late.forEach((plot, element) => {
      if (!element.isConnected) {
        observer.unobserve(element);
        late.delete(element);
        return;
      }
      plot.due = true;
      drawIfDue(plot);
    });
  }
  const drawEvery = () => late.forEach((plot) => { if (plot.due) { plot.due = false; plot.draw(); } });

  function element(tag, attributes = {}, ...inside) {
    const made = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...inside);
    return made;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-image]");
    if (!button) return;
    const canvas = document.getElementById(button.dataset.image);
    if (canvas && canvas.layout) {
      Plotly.downloadImage(canvas, {
        format: button.dataset.format || "png", scale: 2, filename: button.dataset.name || "plot",
        width: canvas.clientWidth, height: canvas.clientHeight,
      });
    }
  });
  const button = (id, name, format) => element("button", {
    type: "button", class: "image", "data-image": id, "data-name": name, "data-format": format,
    "aria-label": `Save ${name} as ${format.toUpperCase()}`,
  }, format.toUpperCase());
  // The buttons that save a plot as an image.
  const imageButtons = (id, name) =>
    element("span", { class: "images" }, button(id, name, "png"), button(id, name, "svg"));
  document.querySelectorAll("figure > .canvas").forEach((canvas) => {
    const title = canvas.parentElement.querySelector("h4, h3");
    if (title) title.append(imageButtons(canvas.id, title.textContent));
  });

  return {
    COLOURS, BANDS, root, data, chosen, plain, style, newGroup, link, drawLate, redraw, drawEvery,
    element, imageButtons, frameOf, axisOf,
  };
})();
