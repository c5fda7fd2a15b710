"use strict";
// Curves of many runs: unpacked when they are needed, smoothed, and averaged over runs.
trainload.curves = (() => {
  const MISSING = 65535;
  const HEAT_STEPS = 250;
  const FEWEST = 50;
  const MOST = 1000;
  const unpacked = new WeakMap();

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  function kept(owner, make) {
    if (!unpacked.has(owner)) unpacked.set(owner, make());
    return unpacked.get(owner);
  }
  const axes = (series) => kept(series, () => ({
    time: new Float32Array(bytes(series.t)), iteration: new Float32Array(bytes(series.i)),
  }));

  function values(text, [least, most]) {
    const parts = new Uint16Array(bytes(text));
    const scale = (most - least) / (MISSING - 1);
    return Float64Array.from(parts, (p) => (p === MISSING ? NaN : least + p * scale));
  }

  // Lowest, mean and highest of one column; all the same where nothing was thinned.
  const column = (series, packed) => kept(packed, () => {
    const mean = packed.m
      ? values(packed.m, packed.r)
      : new Float64Array(axes(series).time.length).fill(packed.r[0]);
    return {
      mean,
      low: packed.l ? values(packed.l, packed.r) : mean,
      high: packed.h ? values(packed.h, packed.r) : mean,
      thinned: Boolean(packed.l),
    };
  });

  // The mean over w readings around each point; a point holds `per` of them.
  function smoothed(list, w, per) {
    const half = Math.max(1, Math.round(w / per)) / 2;
    if (half < 1) return list;
    const sums = new Float64Array(list.length + 1);
    const counts = new Float64Array(list.length + 1);
    list.forEach((v, at) => {
      const known = !Number.isNaN(v);
      sums[at + 1] = sums[at] + (known ? v : 0);
      counts[at + 1] = counts[at] + (known ? 1 : 0);
    });
    return list.map((v, at) => {
      if (Number.isNaN(v)) return NaN;
      const from = Math.max(0, Math.ceil(at - half));
      const to = Math.min(list.length, Math.ceil(at + half));
      return (sums[to] - sums[from]) / (counts[to] - counts[from]);
    });
  }

  // One run's curve of one quantity; null where it has none.
  function ofRun(run, key, axis, w) {
    const series = [run.samples, run.steps].find((s) => s && s.cols[key]);
    if (!series) return null;
    const packed = series.cols[key];
    const found = column(series, packed);
    const x = axes(series)[axis];
    const bold = w > 1 ? smoothed(found.mean, w, series.per) : found.mean;
    const use = [];
    for (let at = 0; at < x.length; at += 1) {
      const gap = Number.isNaN(found.mean[at]);
      if (!Number.isNaN(x[at]) && !(packed.s && gap)) use.push(at);
    }
    const pick = (list) => use.map((at) => list[at]);
    return {
      x: pick(x), y: pick(bold), raw: pick(found.mean), low: pick(found.low), high: pick(found.high),
      thinned: found.thinned, figures: packed.f || null,
    };
  }

  // Without its gaps: a mean of several must not jump where one of them was not read for a while.
  function bridged(curve) {
    const use = curve.y.map((_, at) => at).filter((at) => !Number.isNaN(curve.y[at]));
    const pick = (list) => use.map((at) => list[at]);
    return {
      ...curve, x: pick(curve.x), y: pick(curve.y), low: pick(curve.low), high: pick(curve.high),
    };
  }

  // The mean of several curves, and the lowest and highest of all, on shared points.
  function together(found) {
    if (found.length === 1) return { ...found[0], runs: 1 };
    const curves = found.map(bridged);
    let first = Infinity;
    let last = -Infinity;
    let points = FEWEST;
    curves.forEach((c) => {
      if (!c.x.length) return;
      first = Math.min(first, c.x[0]);
      last = Math.max(last, c.x[c.x.length - 1]);
      points = Math.max(points, c.x.length);
    });
    points = Math.min(points, MOST);
    const x = Array.from({ length: points }, (_, n) => first + ((last - first) * n) / (points - 1));
    const sum = new Float64Array(points);
    const count = new Float64Array(points);
    const low = new Array(points).fill(NaN);
    const high = new Array(points).fill(NaN);
    curves.forEach((c) => {
      let at = 0;
      for (let n = 0; n < points; n += 1) {
        while (at + 2 < c.x.length && c.x[at + 1] < x[n]) at += 1;
        const [a, b] = [c.x[at], c.x[at + 1]];
        if (!(x[n] >= a - 1e-9 && x[n] <= b + 1e-9)) continue;
        const part = b > a ? (x[n] - a) / (b - a) : 0;
        const y = c.y[at] + (c.y[at + 1] - c.y[at]) * Math.min(1, Math.max(0, part));
        if (Number.isNaN(y)) continue;
        sum[n] += y;
        count[n] += 1;
        const l = Math.min(c.low[at], c.low[at + 1]);
        const h = Math.max(c.high[at], c.high[at + 1]);
        if (!(low[n] <= l)) low[n] = l;
        if (!(high[n] >= h)) high[n] = h;
      }
    });
    return {
      x, y: x.map((_, n) => (count[n] ? sum[n] / count[n] : NaN)), low, high, thinned: true,
      raw: null, figures: figuresOf(curves), runs: curves.length,
    };
  }

  // Lowest of all, mean of the runs' means, highest of all.
  function figuresOf(curves) {
    const known = curves.map((c) => c.figures).filter(Boolean);
    if (!known.length) return null;
    return [
      Math.min(...known.map((f) => f[0])),
      known.reduce((sum, f) => sum + f[1], 0) / known.length,
      Math.max(...known.map((f) => f[2])),
    ];
  }

  const cores = (packed) => kept(packed, () => {
    const time = new Float32Array(bytes(packed.t));
    const parts = new Uint8Array(bytes(packed.z));
    const rows = packed.names.map((_, row) =>
      Array.from(parts.subarray(row * time.length, (row + 1) * time.length),
        (p) => (p === 255 ? null : p / HEAT_STEPS)));
    return { x: Array.from(time), rows };
  });

  const UNITS = {
    bytes: [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["bytes", 1]],
    s: [["s", 1], ["ms", 1e-3], ["µs", 1e-6]],
    Hz: [["GHz", 1e9], ["MHz", 1e6], ["Hz", 1]],
  };
  // A unit for people, and what it is worth, for figures up to `highest`.
  function unitFor(unit, highest) {
    if (unit === "fraction") return ["%", 0.01];
    const known = UNITS[unit];
    if (!known) return [unit === "1/s" ? "examples/s" : unit, 1];
    return known.find(([, worth]) => highest >= worth) || known[known.length - 1];
  }
  const number = (value) => (Math.abs(value) >= 1000
    ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));

  return { ofRun, together, cores, unitFor, number };
})();
