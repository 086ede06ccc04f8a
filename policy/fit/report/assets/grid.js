// The cells of a table by the keyboard: one stop of the Tab key, arrows from there on.

const steps = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity],
};

// asGrid makes of a table's body a grid, as ARIA has it. Enter and the space bar do
// what a click does.
function asGrid(table, label) {
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", label);
  const rows = table.tBodies[0].rows;
  const clamp = (i, n) => Math.min(Math.max(i, 0), n - 1);
  let here = rows[0].cells[0];
  for (const row of rows) for (const cell of row.cells) cell.tabIndex = -1;
  here.tabIndex = 0;
  table.addEventListener("focusin", (e) => {
    const cell = e.target.closest("tbody th, tbody td");
    if (!cell) return;
    here.tabIndex = -1;
    here = cell;
    here.tabIndex = 0;
  });
  table.addEventListener("keydown", (e) => {
    if (e.altKey || e.metaKey || e.shiftKey || !e.target.closest("tbody")) return;
    const step = steps[e.key];
    if (step && (!e.ctrlKey || e.key === "Home" || e.key === "End")) {
      const down = e.ctrlKey ? step[1] : step[0]; // Ctrl-Home and Ctrl-End leave the row, too
      const row = rows[clamp(here.parentNode.sectionRowIndex + down, rows.length)];
      const next = row.cells[clamp(here.cellIndex + step[1], row.cells.length)];
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
      next.focus({ preventScroll: true });
    } else if ((e.key === "Enter" || e.key === " ") && !e.ctrlKey) {
      here.click();
    } else if (e.key === "Escape") {
      tip.hide();
    } else {
      return;
    }
    e.preventDefault();
  });
}

// details shows more of a cell while the mouse is on it or the keyboard has come to it.
function details(cell, content) {
  cell.setAttribute("aria-describedby", "tip");
  cell.addEventListener("mousemove", (e) => tip.show(e.clientX, e.clientY, content()));
  cell.addEventListener("mouseleave", tip.hide);
  // The browser scrolls a cell into sight after it has told of its focus.
  cell.addEventListener("focus", () => setTimeout(() => { if (cell === document.activeElement) tip.beside(cell, content()); }));
  cell.addEventListener("blur", tip.hide);
}
