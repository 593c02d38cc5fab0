// Draws each chart when it comes near the window, in the colours of the reader's theme; all at once before printing.
const specs = JSON.parse(document.getElementById("specs").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function config() {
  const ink = dark.matches ? "#c9d1d9" : "#3b434b", line = dark.matches ? "#3a424b" : "#e3e7eb";
  const axis = { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 500 };
  return { background: "transparent", axis, view: { stroke: "transparent" }, title: { color: ink, anchor: "start" },
           legend: { labelColor: ink, titleColor: ink }, header: { labelColor: ink, titleColor: ink }, rule: { color: ink },
           font: "system-ui, DejaVu Sans, sans-serif" };
}
// Tables come by column, texts as positions in a list of distinct ones.
function rows(table) {
  const keys = Object.keys(table), columns = keys.map(k => table[k].texts ? table[k].at.map(i => table[k].texts[i]) : table[k]);
  return keys.length ? columns[0].map((_, i) => Object.fromEntries(keys.map((k, j) => [k, columns[j][i]]))) : [];
}
async function draw(place) {
  if (place.dataset.drawn === String(dark.matches)) return;
  place.dataset.drawn = String(dark.matches);
  const actions = { export: true, source: false, compiled: false, editor: false };
  const { spec, tables } = specs[place.dataset.chart];
  const datasets = Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, rows(table)]));
  await vegaEmbed(place, { ...spec, datasets }, { config: config(), actions, renderer: "canvas" });
}
const places = [...document.querySelectorAll(".chart")];
const near = new IntersectionObserver(seen => seen.forEach(e => { if (e.isIntersecting) draw(e.target); }), { rootMargin: "600px" });
places.forEach(place => near.observe(place));
dark.addEventListener("change", () => places.filter(p => p.dataset.drawn).forEach(draw));
window.addEventListener("beforeprint", () => places.forEach(draw));
if (location.hash === "#all") Promise.all(places.map(draw)).then(() => document.body.dataset.ready = "yes");
