// Names, numbers, colours and small pieces of the document.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

// el makes an element. Texts go in as text: no name can become markup.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") e.addEventListener("click", value);
    else if (name === "style") Object.assign(e.style, value);
    else e.setAttribute(name, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

const units = ["", "KiB", "MiB", "GiB", "TiB"];

function bytes(b) {
  let u = 0;
  while (b >= 1024 && u < units.length - 1) { b /= 1024; u++; }
  return (b === Math.round(b) ? b : b >= 100 ? b.toFixed(0) : b >= 10 ? b.toFixed(1) : b.toFixed(2)) + (u ? " " + units[u] : " B");
}

// shortBytes is for tight places: 64K.
const shortBytes = (b) => bytes(b).replace(" ", "").replace("iB", "");

function micros(us) {
  if (us === null || us === undefined) return "–";
  if (us >= 1e6) return (us / 1e6).toPrecision(4) + " s";
  if (us >= 1e4) return (us / 1e3).toPrecision(4) + " ms";
  return us.toPrecision(4).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") + " µs";
}

// tick is micros for an axis.
const tick = (us) => (us >= 1e6 ? +(us / 1e6).toPrecision(3) + " s" : us >= 1e3 ? +(us / 1e3).toPrecision(3) + " ms" : +us.toPrecision(3) + " µs");

// busbw is the bus bandwidth, GB/s, by nccl-tests' factor.
const busbw = (g, b, us) => (b / us / 1000) * g.bus;
const gbps = (v) => +v.toPrecision(3) + " GB/s";

const known = (v) => v !== null && v !== undefined && !Number.isNaN(v);
const percent = (v) => (!known(v) ? "–" : v > 0 && v < 0.0005 ? "< 0.1 %" : ((100 * v).toFixed(1) + " %").replace(/^-0\.0/, "0.0"));

// color of a variable of the style sheet, as it is now: light or dark.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const numColors = 10;
const familyVar = (family) => "--f" + Math.max(0, data.families.indexOf(family)) % numColors;
const familyOf = (config) => config.split(" ")[0];
const channelsOf = (config) => config.split(" ").slice(1).join(" ");

// Configurations of one family share a colour and differ by their dashes.
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

// The one tooltip of the page.
const tip = {
  show(x, y, ...content) { tip.place(x, x, y, content); },
  beside(e, ...content) {
    const box = e.getBoundingClientRect();
    tip.place(box.left, box.right, box.top + box.height / 2, content);
  },
  // place puts it to the right of what lies between two columns of the window, or to
  // the left where there is no room.
  place(from, to, y, content) {
    const t = $("tip");
    t.replaceChildren(...content);
    t.hidden = false;
    const box = t.getBoundingClientRect();
    const left = to + 16 + box.width > innerWidth ? from - 16 - box.width : to + 16;
    const top = Math.min(Math.max(4, y - box.height / 2), innerHeight - box.height - 4);
    t.style.left = Math.max(4, left) + "px";
    t.style.top = top + "px";
  },
  hide() { $("tip").hidden = true; },
};

// onSwitch wires a row of buttons of which one is on.
function onSwitch(id, f) {
  const buttons = $(id).querySelectorAll("button");
  for (const b of buttons) {
    b.addEventListener("click", () => {
      for (const o of buttons) o.setAttribute("aria-pressed", String(o === b));
      f(b.dataset.mode);
    });
  }
}
