// The rest of one group: regret, scores, coverage.

const hiddenRegret = new Set();
const regretLines = [
  { name: "policy", column: 1, variable: "--f0", dash: [], width: 3 },
  { name: "default", column: 2, variable: "--text", dash: [4, 4], width: 2 },
  { name: "fastest prediction", column: 3, variable: "--f2", dash: [2, 3], width: 2 },
];

function drawRegret() {
  const v = group().unseen;
  const points = v ? v.p : [];
  const of = (l) => points.filter((p) => known(p[l.column])).map((p) => [p[0], 100 * (p[l.column] - 1)]);
  const lines = regretLines.filter((l) => !hiddenRegret.has(l.name) && of(l).length).map((l) => ({ label: l.name, color: color(l.variable), dash: l.dash, width: l.width, line: of(l), dots: of(l) }));
  chart($("regret"), lines, {
    log: false, label: "slower than the fastest measured", height: 270, tick: (v) => +v.toFixed(1) + " %", range: (min, max) => [0, Math.max(5, max * 1.05)],
    empty: v ? "Choose a line below." : "Too little was measured here to keep some of it from the fit.",
    tip: (b) => {
      const t = el("table", null, el("tr", null, el("td", null, el("b", null, bytes(b)))));
      for (const l of regretLines) { const p = pointAt(of(l), b); if (p) t.append(el("tr", null, el("td", { style: { color: "var(" + l.variable + ")" } }, l.name), el("td", { class: "n" }, p[1].toFixed(1) + " % slower than the fastest"))); }
      return t;
    },
  });
  $("regret-legend").replaceChildren(...regretLines.filter((l) => of(l).length).map((l) => el("button", { type: "button", "data-series": l.name, "aria-pressed": String(!hiddenRegret.has(l.name)), onclick: () => { if (!hiddenRegret.delete(l.name)) hiddenRegret.add(l.name); drawRegret(); } }, swatch(l), l.name)));
  drawScores(v);
}

function drawScores(v) {
  if (!v) return $("scores").replaceChildren();
  const rows = [["policy", v.policy], ["fastest prediction", v.plain], ["default", v.default]].filter((r) => r[1]);
  const head = el("tr", null, el("th", null, "time / fastest"), ...["mean", "90 % interval", "p95", "max"].map((h) => el("th", { class: "n" }, h)));
  const body = rows.map(([name, s]) => el("tr", null, el("th", { scope: "row" }, name), el("td", { class: "n" }, ratioText(s[0])), el("td", { class: "n" }, `${ratioText(s[1])} – ${ratioText(s[2])}`), el("td", { class: "n" }, ratioText(s[3])), el("td", { class: "n" }, ratioText(s[4]))));
  const said = [`${v.harm} of ${v.decided} decisions were more than 1 % slower than the default.`];
  if (known(v.inside)) said.push(`${(100 * v.inside).toFixed(0)} % of the times left out are inside their 90 % interval.`);
  $("scores").replaceChildren(el("table", { class: "data" }, el("thead", null, head), el("tbody", null, ...body)), el("p", { class: "hint" }, said.join(" ")));
}

// drawCoverage counts channel counts measured, by family and size; "!" where some
// are missing.
function drawCoverage() {
  const g = group(), c = g.coverage;
  const step = Math.ceil(c.sizes.length / 40); // more columns than that nobody reads
  const at = c.sizes.map((_, i) => i).filter((i) => i % step === 0);
  const head = el("tr", null, el("th", null, "channel counts"), ...at.map((i) => el("th", { scope: "col" }, shortBytes(c.sizes[i]))));
  const rows = c.families.map((f) => el("tr", null, el("th", { scope: "row", title: "channels: " + f.ch.join(", ") }, f.n), ...at.map((i) => coverCell(f, c.sizes[i], f.k[i]))));
  const row = el("tr", null, el("th", { scope: "row" }, "default"), ...at.map((i) => (c.default[i] ? el("td", { style: { background: "var(--none-bg)" } }, "✓") : el("td", { class: "no", title: "the default was not measured at " + bytes(c.sizes[i]) }, "–"))));
  const why = new Map(g.sizes.map((s) => [s.b, s]));
  const acts = el("tr", null, el("th", { scope: "row" }, "policy acts"), ...at.map((i) => { const s = why.get(c.sizes[i]); return s && s.row ? el("td", { title: s.row, style: { background: "var(--good-bg)", color: "var(--good)" } }, "✓") : el("td", { title: s ? s.why : "", style: { background: "var(--none-bg)", color: "var(--dim)" } }, "·"); }));
  $("coverage").replaceChildren(el("table", { class: "cover" }, el("thead", null, head), el("tbody", null, ...rows, row, acts)));
  $("notes").replaceChildren(...silences(g).map((n) => el("li", null, n)), ...(g.notes || []).map((n) => el("li", null, n)));
}

function coverCell(f, size, n) {
  const share = n / f.ch.length;
  if (!n) return el("td", { class: "no", title: `${f.n} was not measured at ${bytes(size)}` }, "–");
  const v = "var(" + familyVar(f.n) + ")";
  return el("td", { title: `${f.n} at ${bytes(size)}: ${n} of ${f.ch.length} channel counts`, style: { background: `color-mix(in srgb, ${v} ${Math.round(10 + 35 * share)}%, var(--surface))` } }, String(n));
}

// silences says why the policy leaves sizes to NCCL, most sizes first.
function silences(g) {
  const by = new Map();
  for (const s of g.sizes) if (!s.row) by.set(s.why, [...(by.get(s.why) || []), s.b]);
  return [...by].sort((a, b) => b[1].length - a[1].length).map(([why, sizes]) => `left to NCCL at ${sizes.length} of ${g.sizes.length} sizes (${sizes.length > 6 ? sizes.slice(0, 5).map(shortBytes).join(", ") + ", …" : sizes.map(shortBytes).join(", ")}): ${why}`);
}
