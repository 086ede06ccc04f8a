"use strict";
// Runs before the page's own script, waits for it, then does what a person does.
const found = { Errors: [], Requests: [], Scripts: 0, Ink: 0, Same: {}, Changed: {}, Tip: "", MapTip: "", KeyTip: "", KeyAway: false, TabStops: [], Walk: [], Chosen: false, Away: false, Maps: 0, Own: 0, OwnWins: 0, Lines: 0, Bent: 0, Done: false };
addEventListener("error", (e) => found.Errors.push(String(e.message || e.target.outerHTML)), true);
addEventListener("unhandledrejection", (e) => found.Errors.push(String(e.reason)));
document.addEventListener("securitypolicyviolation", (e) => found.Errors.push("forbidden: " + e.violatedDirective + " " + e.blockedURI));
for (const level of ["error", "warn"]) console[level] = (...args) => found.Errors.push(args.join(" "));

// Lines that a chart draws are straight: what a curve is in between, the data say.
for (const [method, count] of [["lineTo", "Lines"], ["bezierCurveTo", "Bent"], ["quadraticCurveTo", "Bent"]]) {
  const draw = Path2D.prototype[method];
  Path2D.prototype[method] = function (...args) { found[count]++; return draw.apply(this, args); };
}

const byId = (id) => document.getElementById(id);
const settle = () => new Promise((done) => setTimeout(done, 120));

// pixels of a chart: how many are not background, and a hash of all.
function pixels(id) {
  const canvas = byId(id).querySelector("canvas");
  if (!canvas) return { ink: 0, hash: 0 };
  const rgba = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let ink = 0, hash = 2166136261;
  for (let i = 0; i < rgba.length; i += 4) {
    if (rgba[i + 3] > 0) ink++;
    hash = Math.imul(hash ^ (rgba[i] | (rgba[i + 1] << 8) | (rgba[i + 2] << 16) | (rgba[i + 3] << 24)), 16777619);
  }
  return { ink, hash };
}

function mouse(target, type, x, y) {
  const box = target.getBoundingClientRect();
  const at = { clientX: box.left + x * box.width, clientY: box.top + y * box.height };
  target.dispatchEvent(new MouseEvent(type, { bubbles: true, view: window, movementX: 9, ...at })); // uPlot takes 0 for no move
}

// walk goes through the first map by the keyboard, from a cell and back to it.
async function walk(cell) {
  const grid = cell.closest(".map"), body = grid.tBodies[0];
  const place = () => { const c = document.activeElement; return c.closest(".map") === grid ? [c.parentNode.sectionRowIndex, c.cellIndex].join() : c.tagName; };
  const press = async (key, ctrlKey = false) => {
    const taken = !document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey, bubbles: true, cancelable: true }));
    await settle();
    found.Walk.push(`${ctrlKey ? "Ctrl-" : ""}${key} ${place()}${taken ? "" : " not taken"}`);
  };
  const stops = () => [...document.querySelectorAll(".map")].map((m) => m.querySelectorAll('[tabindex="0"]').length);
  mouse(cell, "mouseleave", 0.5, 0.5);
  found.TabStops.push(...stops());
  body.rows[0].cells[0].focus();
  for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowUp", "ArrowUp", "End", "Home", "PageDown", "x"]) await press(key);
  await press("Home", true);
  await press("End", true);
  await press("ArrowLeft", true);
  found.Corner = [body.rows.length - 1, body.rows[0].cells.length - 1].join();
  cell.focus();
  await settle();
  if (!byId("tip").hidden) found.KeyTip = byId("tip").innerText;
  found.TabStops.push(...stops());
  await press("Escape");
  found.KeyAway = byId("tip").hidden;
  byId("group").value = "";
  await press("Enter");
  found.Chosen = byId("group").value !== "";
  cell.blur();
}

async function use() {
  await settle();
  found.Scripts = document.scripts.length;
  found.Ink = pixels("chart").ink;
  const first = pixels("chart").hash;
  const after = async (act, id = "chart") => { const before = pixels(id).hash; act(); await settle(); return pixels(id).hash !== before; };

  const shown = () => document.querySelectorAll('#legend button[aria-pressed="true"]');
  const last = () => document.querySelector(`#legend button[data-series="${CSS.escape(name)}"]`);
  const name = shown()[1].dataset.series;
  found.Changed["series off"] = await after(() => last().click());
  last().click();
  await settle();
  found.Same["series on again"] = pixels("chart").hash === first;
  found.Changed["none"] = await after(() => byId("none").click());
  byId("top").click();
  await settle();
  found.Same["top"] = pixels("chart").hash === first;
  for (const mode of ["ratio", "bw"]) found.Changed[mode] = await after(() => document.querySelector(`#y-mode [data-mode="${mode}"]`).click());
  document.querySelector('#y-mode [data-mode="us"]').click();
  found.Changed["theme"] = await after(() => byId("theme").click());

  const over = byId("chart").querySelector(".u-over");
  mouse(over, "mouseenter", 0.5, 0.5);
  mouse(over, "mousemove", 0.5, 0.5);
  await settle();
  if (!byId("tip").hidden) found.Tip = byId("tip").innerText;
  mouse(over, "mouseleave", 0.5, 2);
  await settle();
  found.Away = byId("tip").hidden;
  const wide = pixels("chart").hash;
  for (const [type, x] of [["mouseenter", 0.3], ["mousemove", 0.3], ["mousedown", 0.3], ["mousemove", 0.45], ["mousemove", 0.6], ["mouseup", 0.6]]) {
    mouse(over, type, x, 0.5);
    await settle();
  }
  found.Changed["zoom"] = pixels("chart").hash !== wide;

  const cell = [...document.querySelectorAll(".map td")].find((td) => td.querySelector("div"));
  mouse(cell, "mousemove", 0.5, 0.5);
  await settle();
  if (!byId("tip").hidden) found.MapTip = byId("tip").innerText;
  await walk(cell);
  const map = byId("maps").innerText;
  found.OwnWins = (map.match(/own/g) || []).length;
  document.querySelector('#map-mode [data-mode="policy"]').click();
  await settle();
  found.Changed["map mode"] = byId("maps").innerText !== map;
  const groups = byId("group");
  found.Changed["other group"] = await after(() => { groups.value = String((Number(groups.value) + 1) % groups.length); groups.dispatchEvent(new Event("change")); });
  const entries = document.querySelectorAll("#legend button").length;
  byId("filter").value = "ring/ll";
  byId("filter").dispatchEvent(new Event("input"));
  found.Changed["filter"] = document.querySelectorAll("#legend button").length < entries;
  found.Own = [...document.querySelectorAll(".map td")].filter((td) => td.innerText.includes("own")).length;
  found.Maps = document.querySelectorAll(".map").length;
  // data: is inside the file.
  found.Requests = performance.getEntriesByType("resource").map((e) => e.name).filter((u) => !u.startsWith("data:"));
  found.Done = true;
}

addEventListener("load", () => use().catch((e) => found.Errors.push(String(e.stack))).finally(() => {
  const pre = document.createElement("pre");
  pre.id = "driven";
  pre.textContent = JSON.stringify(found);
  document.body.append(pre);
}));
