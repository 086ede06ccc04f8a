// What the page does when it is opened and used.

function choose(i, scroll) {
  curveState.group = i;
  $("group").value = String(i);
  $("shown").textContent = group().name;
  for (const tr of document.querySelectorAll("tr[data-group]")) tr.classList.toggle("chosen", Number(tr.dataset.group) === i);
  const g = group();
  $("facts").textContent = `repetitions differ by ${percent(g.noise)}${g.noiseAssumed ? " (assumed: too few repetitions)" : ` (${g.noisePairs} pairs)`}`;
  showTop();
  drawGroup();
  if (scroll) $("curves").scrollIntoView({ behavior: "smooth" });
}

function drawGroup() {
  tip.hide();
  drawLegend();
  drawCurves();
  $("left").replaceChildren(...leftToNCCL(group()).map((n) => el("li", null, n)));
}

for (const tr of document.querySelectorAll("tr[data-group]")) {
  const go = () => choose(Number(tr.dataset.group), true);
  tr.addEventListener("click", go);
  tr.addEventListener("keydown", (e) => { if (e.key === "Enter") go(); });
}
$("group").addEventListener("change", (e) => choose(Number(e.target.value), false));
onSwitch("map-mode", (mode) => { mapState.mode = mode; drawMaps(); });
onSwitch("y-mode", (mode) => { curveState.y = mode; drawCurves(); });
$("filter").addEventListener("input", (e) => { curveState.filter = e.target.value; drawLegend(); });
$("top").addEventListener("click", () => { showTop(); drawLegend(); drawCurves(); });
$("none").addEventListener("click", () => { curveState.on.clear(); drawLegend(); drawCurves(); });

const copy = $("copy");
if (copy) {
  copy.addEventListener("click", async () => {
    const said = $("copied");
    try {
      await navigator.clipboard.writeText($("rows").textContent);
      said.textContent = "copied";
    } catch {
      getSelection().selectAllChildren($("rows"));
      said.textContent = "selected: press Ctrl-C";
    }
  });
}

// Canvases do not follow the style sheet by themselves.
const redraw = drawCurves;
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", redraw);
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  redraw();
});
// Paper is white and narrow, and nothing on it can be opened.
const onScreen = {};
addEventListener("beforeprint", () => {
  const root = document.documentElement;
  Object.assign(onScreen, { theme: root.dataset.theme, terms: $("terms").open });
  root.dataset.theme = "light";
  $("terms").open = true;
  widest = 680;
  redraw();
});
addEventListener("afterprint", () => {
  const root = document.documentElement;
  if (onScreen.theme) root.dataset.theme = onScreen.theme; else delete root.dataset.theme;
  $("terms").open = onScreen.terms;
  widest = Infinity;
  redraw();
});
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });

drawMaps();
// Start where there is most to see: the first group that the policy acts on.
choose(Math.max(0, data.groups.findIndex((g) => g.sizes.some((s) => s.row))), false);
