// Draws each chart when it comes near the window, in the colours of the reader's theme; all at once before printing.
const specs = JSON.parse(document.getElementById("specs").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)"), narrow = window.matchMedia("(max-width: 700px)");
let printing = false;
function config() {
  const night = dark.matches && !printing;
  const ink = night ? "#c9d1d9" : "#3b434b", line = night ? "#3a424b" : "#e3e7eb", paper = night ? "#15181c" : "#ffffff";
  const axis = { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 500, labelFlush: false };
  const legend = { labelColor: ink, titleColor: ink, ...(narrow.matches ? { orient: "bottom", columns: 2 } : {}) };
  return { background: "transparent", axis, legend, view: { stroke: "transparent" }, title: { color: ink, subtitleColor: ink, anchor: "start" },
           header: { labelColor: ink, titleColor: ink }, rule: { color: ink }, text: { color: ink }, line: { color: ink },
           style: { gap: { color: paper, stroke: paper } }, font: "system-ui, DejaVu Sans, sans-serif" };
}
// Tables come by column, texts as positions in a list of distinct ones.
function rows(table) {
  const keys = Object.keys(table), columns = keys.map(k => table[k].texts ? table[k].at.map(i => table[k].texts[i]) : table[k]);
  return keys.length ? columns[0].map((_, i) => Object.fromEntries(keys.map((k, j) => [k, columns[j][i]]))) : [];
}
async function draw(place) {
  const state = `${dark.matches} ${narrow.matches} ${printing}`;
  if (place.dataset.drawn === state || (!place.clientWidth && !printing)) return;
  place.dataset.drawn = state;
  const actions = { export: true, source: false, compiled: false, editor: false };
  const { spec, tables } = specs[place.dataset.chart];
  const datasets = Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, rows(table)]));
  const { view } = await vegaEmbed(place, { ...spec, datasets }, { config: config(), actions, renderer: "svg" });
  if ((spec.params || []).some(p => p.name === "axis")) { curves.set(place, view); if (axis.dataset.chosen) turn(view); }
}
// One switch sets the axis of every curve, also of those that are drawn later.
const curves = new Map(), axis = document.getElementById("axis");
const turn = view => view.signal("axis", axis.value).runAsync();
if (axis) axis.addEventListener("change", () => { axis.dataset.chosen = "yes"; curves.forEach(turn); });
const places = [...document.querySelectorAll(".chart")];
const near = new IntersectionObserver(seen => seen.forEach(e => { if (e.isIntersecting) draw(e.target); }), { rootMargin: "600px" });
places.forEach(place => near.observe(place));
const redraw = () => places.filter(p => p.dataset.drawn).forEach(draw);
dark.addEventListener("change", redraw); narrow.addEventListener("change", redraw);
document.querySelectorAll("details").forEach(d => d.addEventListener("toggle", () => d.querySelectorAll(".chart").forEach(draw)));
// Several settings: one at a time, or all.
const chooser = document.getElementById("setting");
function choose() {
  document.querySelectorAll(".of-setting").forEach(b => { b.hidden = chooser.value !== "" && b.dataset.setting !== chooser.value; });
}
if (chooser) { chooser.addEventListener("change", choose); choose(); }
// A heading sorts its table: numbers by their value, texts by the alphabet; what has no number comes last beside numbers.
function sort(th) {
  const at = th.cellIndex, body = th.closest("table").tBodies[0], up = th.getAttribute("aria-sort") === "descending";
  th.parentElement.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = row => { const cell = row.cells[at]; return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value); };
  const numbers = [...body.rows].some(row => typeof key(row) === "number");
  const missing = row => key(row) === "" || key(row) === "–" || (numbers && typeof key(row) !== "number") ? 1 : 0;
  const order = (a, b) => typeof key(a) === "number" && typeof key(b) === "number" ? key(a) - key(b) : String(key(a)).localeCompare(String(key(b)));
  body.append(...[...body.rows].sort((a, b) => missing(a) - missing(b) || (up ? order(a, b) : order(b, a))));
}
document.querySelectorAll(".sortable th").forEach(th => {
  th.addEventListener("click", () => sort(th)); th.addEventListener("keydown", e => { if (e.key === "Enter") sort(th); }); });
function drawAll() { document.querySelectorAll(".of-setting").forEach(b => { b.hidden = false; }); return Promise.all(places.map(draw)); }
let opened = [];  // what is folded on the screen is open on paper
window.addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open])")].filter(d => !d.closest(".chart"));
  opened.forEach(d => { d.open = true; }); printing = true; drawAll(); });
window.addEventListener("afterprint", () => {
  opened.forEach(d => { d.open = false; }); printing = false; if (chooser) choose(); redraw(); });
if (location.hash === "#all") drawAll().then(() => document.body.dataset.ready = "yes");
