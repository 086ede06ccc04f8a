// The curves of one group: time over size, measured, and as decisions reckon with it in between.

const curveState = { group: 0, y: "us", on: new Set(), filter: "" };

const group = () => data.groups[curveState.group];

// styles gives each curve its family's colour, and dashes by rank in the family.
function styles(g) {
  const rank = {}, out = new Map();
  for (const c of g.curves) {
    const k = rank[c.f] = (rank[c.f] || 0) + 1;
    out.set(c.n, c.f ? { variable: familyVar(c.f), dash: dashes[(k - 1) % dashes.length] } : { variable: "--text", dash: [4, 4] });
  }
  return out;
}

// fastest is the least of all curves, NCCL's choice among them, at each size of one.
function fastest(g) {
  const lines = g.curves.map((c) => (c.c.length ? c.c : c.m));
  const sizes = new Set(lines.flat().map((p) => p[0]));
  return new Map([...sizes].map((b) => [b, Math.min(...lines.map((l) => between(l, b)).filter(known))]));
}

// scaleY turns microseconds into what the axis shows.
function scaleY(g) {
  switch (curveState.y) {
    case "ratio": { const least = fastest(g); return (b, us) => us / least.get(b); }
    case "bw": return (b, us) => busbw(g, b, us);
    default: return (b, us) => us;
  }
}

function drawCurves() {
  const g = group(), y = scaleY(g), style = styles(g), lines = [];
  for (const c of g.curves) {
    if (!curveState.on.has(c.n)) continue;
    const s = style.get(c.n);
    const line = { label: c.n, color: color(s.variable), dash: s.dash, line: c.c.map((p) => [p[0], y(p[0], p[1])]), dots: c.m.map((p) => [p[0], y(p[0], p[1])]) };
    if (!c.f) Object.assign(line, { width: 2.5, hollow: true, size: 8 });
    lines.push(line);
  }
  const shapes = {
    us: { log: true, label: "time", tick },
    ratio: { log: false, label: "time / fastest", tick: (v) => v.toFixed(2), range: (min, max) => [Math.min(0.97, Math.max(0.8, min)), Math.min(2.5, Math.max(1.2, max))] },
    bw: { log: true, label: "bus bandwidth, GB/s", tick: (v) => +v.toPrecision(3) },
  };
  chart($("chart"), lines, { ...shapes[curveState.y], height: 430, empty: "Choose a configuration on the right to see its curve.", tip: curveTip });
}

// curveTip lists what is shown at a size, fastest first.
function curveTip(b) {
  const g = group(), style = styles(g), rows = [];
  for (const c of g.curves) {
    if (!curveState.on.has(c.n)) continue;
    const m = pointAt(c.m, b), f = pointAt(c.c, b);
    if (m || f) rows.push({ name: c.n, color: "var(" + style.get(c.n).variable + ")", us: m ? m[1] : f[1], measured: m && m[1], fitted: f && f[1] });
  }
  rows.sort((a, c) => a.us - c.us);
  const most = 14;
  const t = el("table", null, el("tr", null, el("td", null, el("b", null, bytes(b))), el("td", { class: "dim n" }, "measured"), el("td", { class: "dim n" }, "curve"), el("td", { class: "dim n" }, "busbw")));
  for (const r of rows.slice(0, most)) {
    t.append(el("tr", null, el("td", { style: { color: r.color } }, r.name), el("td", { class: "n" }, r.measured ? micros(r.measured) : "–"), el("td", { class: "n" }, r.fitted ? micros(r.fitted) : ""), el("td", { class: "n" }, gbps(busbw(g, b, r.us)))));
  }
  if (rows.length > most) t.append(el("tr", null, el("td", { class: "dim" }, `and ${rows.length - most} more`)));
  return t;
}

function swatch(style) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", "28");
  svg.setAttribute("height", "10");
  const line = document.createElementNS(svg.namespaceURI, "line");
  for (const [k, v] of Object.entries({ x1: 0, x2: 28, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": style.dash.join(" ") })) line.setAttribute(k, v);
  line.style.stroke = "var(" + style.variable + ")";
  svg.append(line);
  return svg;
}

function drawLegend() {
  const g = group(), style = styles(g), words = curveState.filter.toLowerCase();
  const entry = (name, s, note) => el("button", { type: "button", "data-series": name, "aria-pressed": String(curveState.on.has(name)), title: note, onclick: (e) => toggle(name, e.currentTarget) }, swatch(s), el("span", { class: "name" }, name), el("span", { class: "wins" }, note));
  const entries = [];
  for (const c of g.curves) {
    if (!c.f || c.n.toLowerCase().includes(words)) entries.push(entry(c.n, style.get(c.n), !c.f ? "" : c.wins ? `wins ${c.wins}` : `+${(100 * (Math.exp(c.behind) - 1)).toFixed(0)} %`));
  }
  if (g.left) entries.push(el("p", { class: "hint" }, `${g.left} slower ones are in the model, not on this page`));
  $("legend").replaceChildren(...entries);
}

function toggle(name, button) {
  const on = !curveState.on.delete(name);
  if (on) curveState.on.add(name);
  button.setAttribute("aria-pressed", String(on));
  drawCurves();
}

// showTop is what a group starts with.
function showTop() {
  curveState.on = new Set(group().curves.filter((c) => c.on).map((c) => c.n));
}

// leftToNCCL says why the policy leaves sizes to NCCL, most sizes first.
function leftToNCCL(g) {
  const by = new Map();
  for (const s of g.sizes) if (!s.row) by.set(s.why, [...(by.get(s.why) || []), s.b]);
  return [...by].sort((a, b) => b[1].length - a[1].length).map(([why, sizes]) => `left to NCCL at ${sizes.length} of ${g.sizes.length} sizes (${sizes.length > 6 ? sizes.slice(0, 5).map(shortBytes).join(", ") + ", …" : sizes.map(shortBytes).join(", ")}): ${why}`);
}
