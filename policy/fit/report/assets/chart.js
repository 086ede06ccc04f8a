// A chart over sizes.

// sizeTicks are powers of two, few enough to read.
function sizeTicks(u, axis, min, max) {
  const from = Math.ceil(Math.log2(min) - 1e-9), to = Math.floor(Math.log2(max) + 1e-9);
  const step = Math.max(1, Math.ceil((to - from) / Math.max(2, u.bbox.width / devicePixelRatio / 58)));
  const ticks = [];
  for (let k = from; k <= to; k += step) ticks.push(2 ** k);
  return ticks.length ? ticks : [min];
}

// logTicks are 1, 2 and 5 of each decade, or only 1 where there are many.
function logTicks(u, axis, min, max) {
  const ticks = [];
  const steps = Math.log10(max / min) > 4 ? [1] : [1, 2, 5];
  for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++) {
    for (const s of steps) { const v = s * 10 ** e; if (v >= min && v <= max) ticks.push(v); }
  }
  return ticks.length > 1 ? ticks : [min, max];
}

// widest is how wide a chart may be, in pixels.
let widest = Infinity;

// chart draws into a place. lines: {label, color, dash, width, line: [[x, y]...],
// dots: [[x, y]...]}. All share one list of sizes, as
// uPlot wants it. Where there is nothing to draw, o.empty says why.
function chart(place, lines, o) {
  place.replaceChildren();
  const xs = new Set();
  for (const l of lines) for (const p of [...(l.line || []), ...(l.dots || [])]) xs.add(p[0]);
  if (!xs.size) {
    place.append(el("p", { class: "none" }, o.empty));
    return;
  }
  const x = [...xs].sort((a, b) => a - b);
  const at = new Map(x.map((v, i) => [v, i]));
  const column = (points) => {
    const c = new Array(x.length).fill(null);
    for (const p of points) if (known(p[1]) && (!o.log || p[1] > 0)) c[at.get(p[0])] = p[1];
    return c;
  };
  const columns = [x], series = [{}];
  const add = (c, s) => { columns.push(c); series.push({ spanGaps: true, points: { show: false }, ...s }); };
  for (const l of lines) {
    if (l.line && l.line.length) add(column(l.line), { label: l.label, stroke: l.color, width: l.width || 2, dash: l.dash });
    if (l.dots && l.dots.length) {
      add(column(l.dots), { label: l.label, stroke: l.color, paths: () => null, points: { show: true, size: l.size || 6, fill: l.hollow ? color("--surface") : l.color, stroke: l.color, width: l.hollow ? 2 : 1 } });
    }
  }
  const text = color("--dim"), grid = { stroke: color("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  const pad = (u, min, max) => {
    if (!known(min) || !known(max)) return o.log ? [1, 10] : [0, 1];
    if (o.range) return o.range(min, max);
    return o.log ? [min / 1.12, max * 1.12] : [min, max];
  };
  new uPlot({
    width: Math.min(widest, Math.max(280, place.clientWidth)), height: o.height, series, legend: { show: false },
    scales: { x: { time: false, distr: 3, log: 2, range: (u, min, max) => [min / (x.length > 1 ? 1.04 : 2), max * (x.length > 1 ? 1.04 : 2)] }, y: { distr: o.log ? 3 : 1, range: pad } },
    axes: [
      { stroke: text, grid, ticks: grid, font, splits: sizeTicks, filter: (u, s) => s, values: (u, s) => s.map(shortBytes), size: 32 },
      { stroke: text, grid, ticks: grid, font, size: 66, label: o.label, labelFont: font, labelSize: 18, splits: o.log ? logTicks : undefined, filter: o.log ? (u, s) => s : undefined, values: (u, s) => s.map(o.tick) },
    ],
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: true } },
    hooks: { setCursor: [(u) => { const i = u.cursor.idx; if (i === null || i === undefined || u.cursor.left < 0) tip.hide(); else { const box = u.over.getBoundingClientRect(); tip.show(box.left + u.cursor.left, box.top + u.cursor.top, o.tip(x[i])); } }] },
  }, columns, place);
}

// pointAt returns the point of an ascending list at a size; undefined without.
const pointAt = (points, b) => points.find((p) => p[0] === b);

// between joins points by straight lines over the logarithms.
function between(points, b) {
  let i = points.findIndex((p) => p[0] >= b);
  if (i < 0) return NaN;
  if (points[i][0] === b) return points[i][1];
  if (i === 0) return NaN;
  const [x0, y0] = points[i - 1], [x1, y1] = points[i];
  const t = Math.log(b / x0) / Math.log(x1 / x0);
  return y0 * (y1 / y0) ** t;
}
