// Which configuration wins where: one table per collective, communicators by sizes.

const mapState = { mode: "wins", all: {} };
const mostRows = 40; // of a map, before asked for all

function drawMaps() {
  const colls = new Map();
  const alone = [];
  data.groups.forEach((g, i) => {
    if (!g.left && !g.curves.some((c) => c.f)) { alone.push(g.name); return; }
    if (!colls.has(g.coll)) colls.set(g.coll, []);
    colls.get(g.coll).push(i);
  });
  $("maps").replaceChildren(...[...colls].map(([coll, groups]) => el("div", { class: "scroll" }, mapOf(coll, groups))));
  if (alone.length) $("maps").append(el("p", { class: "hint" }, "Nothing but the default was measured of " + alone.slice(0, 12).join(", ") + (alone.length > 12 ? ` and ${alone.length - 12} more` : "") + "."));
  drawKey();
}

function mapOf(coll, groups) {
  const columns = new Set();
  for (const i of groups) for (const s of data.groups[i].sizes) columns.add(Math.floor(Math.log2(s.b)));
  const octaves = [...columns].sort((a, b) => a - b);
  const head = el("tr", null, el("th", { scope: "col" }, coll), ...octaves.map((o) => el("th", { scope: "col" }, shortBytes(2 ** o))));
  const shown = mapState.all[coll] ? groups : groups.slice(0, mostRows);
  const rows = shown.map((i) => {
    const g = data.groups[i];
    const name = el("th", { scope: "row", onclick: () => choose(i, true) }, g.comm);
    return el("tr", null, name, ...octaves.map((o) => mapCell(i, g.sizes.filter((s) => Math.floor(Math.log2(s.b)) === o))));
  });
  const table = el("table", { class: "map", "data-coll": coll, style: { minWidth: 6.6 + 2.9 * octaves.length + "rem", maxWidth: 6.6 + 5.2 * octaves.length + "rem" } }, el("thead", null, head), el("tbody", null, ...rows));
  asGrid(table, coll + ", communicators by sizes");
  if (shown.length === groups.length) return table;
  const more = el("button", { type: "button", onclick: () => { mapState.all[coll] = true; drawMaps(); firstHidden(coll).focus(); } }, `show all ${groups.length} communicators`);
  return el("div", null, table, more);
}

// firstHidden is where to go on after all communicators are asked for.
const firstHidden = (coll) => document.querySelector(`.map[data-coll="${CSS.escape(coll)}"]`).tBodies[0].rows[mostRows].cells[0];

// mapCell shows the first size measured within an octave.
function mapCell(group, sizes) {
  if (!sizes.length) {
    const nothing = el("td", { class: "void" });
    details(nothing, () => "not measured");
    return nothing;
  }
  const s = sizes[0];
  const config = mapState.mode === "wins" ? s.w : s.row;
  const gain = mapState.mode === "wins" ? s.r : s.g;
  const td = el("td", { onclick: () => choose(group, true) });
  if (config) {
    const f = "var(" + familyVar(familyOf(config)) + ")";
    td.style.background = `color-mix(in srgb, ${f} 20%, var(--surface))`;
    td.style.borderBottom = "3px solid " + f;
    const [algorithm, protocol] = familyOf(config).split("/");
    td.append(el("div", null, ...algorithm.split("_").flatMap((word, i) => (i ? ["_", el("wbr"), word] : [word])), "/", el("wbr"), protocol), el("div", { class: "ch" }, channelsOf(config) || "any ch"), s.u ? el("div", { class: "gain" }, "not sure") : known(gain) ? el("div", { class: "gain" }, signedShare(gain)) : "");
  } else {
    td.className = "mute";
    td.append(mapState.mode === "wins" && !known(s.r) ? "default only" : "NCCL’s own");
  }
  details(td, () => mapTip(data.groups[group], s, sizes.length));
  return td;
}

const signedShare = (v) => (v > 0.0005 ? "+" : "") + (Math.abs(v) < 0.0005 ? "0.0 %" : percent(v));

function mapTip(g, s, n) {
  const row = (name, value) => el("tr", null, el("td", { class: "dim" }, name), el("td", { class: "wrap" }, value));
  const t = el("table", null, el("tr", null, el("td", { colspan: 2 }, el("b", null, `${g.name}, ${bytes(s.b)}` + (n > 1 ? `, and ${n - 1} more up to twice that` : "")))));
  t.append(row("fastest measured", `${s.w || "NCCL’s default"}, ${micros(s.us)}, ${gbps(busbw(g, s.b, s.us))}`));
  t.append(row("default", known(s.d) ? `${s.dl || "label not known"}, ${micros(s.d)}, ${gbps(busbw(g, s.b, s.d))}` : "not measured"));
  if (s.w && known(s.r)) t.append(row("fastest over default", signedShare(s.r) + (s.u ? ", not sure" : "")));
  t.append(s.row ? row("policy", s.row + (known(s.g) ? `, ${signedShare(s.g)}` : "")) : row("policy leaves it", s.why));
  return t;
}

function drawKey() {
  const used = new Set();
  for (const g of data.groups) for (const s of g.sizes) { const c = mapState.mode === "wins" ? s.w : s.row; if (c) used.add(familyOf(c)); }
  const keys = data.families.filter((f) => used.has(f)).map((f) => el("span", { class: "key" }, el("span", { class: "swatch", style: { background: "var(" + familyVar(f) + ")" } }), f));
  keys.push(el("span", { class: "key" }, "+ % is time saved against NCCL’s default, as measured"));
  $("map-key").replaceChildren(...keys);
}
