"use strict";
// One state, drawn anew after every change; the address keeps it, so that a view can be shared.
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B2A000", "#B0307F"];
const QUESTIONS = {
  rounds: "Who learns faster, round by round? All devices are equally fast.",
  seconds: "Who learns faster by the clock? Speeds and bandwidths differ, some slow devices hold rare data, servers have deadlines, quorums and late updates.",
  overlap: "Who learns faster by the clock where rounds overlap?",
  adversaries: "Who keeps learning where a tenth of the clients attack and know the guards?",
};
const COLUMNS = [
  ["row", "method", "text"], ["rank", "mean rank"], ["gain", "gain, points"], ["low", "95 % interval"],
  ["pBaseline", "p, uniform"], ["pLeader", "p, best other"], ["end", "gain at the end"], ["better", "better / worse"], ["information", "server knows", "text"],
  ["reachedShare", "runs at target"], ["rankSeconds", "rank by seconds"], ["worstGain", "worst cell"], ["failures", "failed"],
  ["megabytes", "MB a run"], ["milliseconds", "ms a choice"]];
const TIMED = ["reachedShare", "rankSeconds"];
const ASCENDING = ["row", "information", "rank", "rankSeconds", "pBaseline", "pLeader", "failures", "megabytes", "milliseconds"];
const TEXTS = ["half", "family", "data", "model", "best", "first"];
const tracks = Object.keys(data.tracks);
// The page opens on the first track that has standings.
const firstTrack = tracks.find((track) => Object.values(data.tracks[track].tables).some((table) => table.rows.length)) ?? tracks[0];
const state = { track: firstTrack, table: "default", information: "all", family: "all", find: "", sort: "rank", up: true, cell: "", shown: null };

const byId = (id) => document.getElementById(id);
function make(tag, text, attributes) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  return node;
}
function signed(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value).toFixed(digits);
  return (Number(size) === 0 || value > 0 ? "+" : "−") + size;
}
const fixed = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));

function currentTrack() { return data.tracks[state.track]; }
function currentTable() { return currentTrack().tables[state.table]; }

// -- rows: filters, a family's own ranks, order ------------------------------------------------------------------------

function familyCells() { return currentTrack().cells.filter((cell) => cell.half === "held-out" && (state.family === "all" || cell.family === state.family)); }

function meanRanks(table, rows, cells) {
  const sums = Object.fromEntries(rows.map((row) => [row.row, 0]));
  for (const cell of cells) {
    const areas = rows.map((row) => table.cells[cell.name].area[row.row]);
    rows.forEach((row, position) => {
      const larger = areas.filter((area) => area > areas[position]).length;
      const equal = areas.filter((area) => area === areas[position]).length;
      sums[row.row] += larger + (equal + 1) / 2;
    });
  }
  return Object.fromEntries(rows.map((row) => [row.row, sums[row.row] / cells.length]));
}

function shownRows() {
  const table = currentTable();
  if (!table) return [];
  let rows = table.rows.map((row) => ({ ...row }));
  if (state.family !== "all") {
    const ranks = meanRanks(table, rows, familyCells());
    for (const row of rows) Object.assign(row, { rank: ranks[row.row], gain: row.families[state.family], low: null, high: null, baseline: null, leader: null });
  }
  for (const row of rows) {
    row.pBaseline = row.baseline ? row.baseline.p : null;
    row.pLeader = row.leader ? row.leader.p : null;
    row.reachedShare = row.reached ? row.reached[0] / row.reached[1] : null;
  }
  rows = rows.filter((row) => row.row === "uniform" || state.information === "all" || row.information === state.information);
  rows = rows.filter((row) => row.row.includes(state.find.trim().toLowerCase()));
  const sign = state.up ? 1 : -1;
  return rows.sort((a, b) => {
    const [x, y] = [a[state.sort], b[state.sort]];
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
}

function chartRows() {
  const table = currentTable();
  if (!table) return [];
  const names = table.rows.map((row) => row.row);
  if (state.shown) return names.filter((name) => state.shown.includes(name));
  return names.filter((name, position) => position < 5 || name === "uniform");
}
function colour(name) {
  if (name === "uniform") return "#7f7f7f";
  const names = chartRows().filter((other) => other !== "uniform");
  return COLOURS[names.indexOf(name) % COLOURS.length];
}

// -- tables ------------------------------------------------------------------------------------------------------------

function drawStandings() {
  const timed = currentTrack().timed;
  const columns = COLUMNS.filter(([key]) => timed || !TIMED.includes(key));
  const head = make("tr");
  head.append(make("th", "chart", { scope: "col" }));
  for (const [key, title, kind] of columns) {
    const cell = make("th", null, { scope: "col", "aria-sort": state.sort === key ? (state.up ? "ascending" : "descending") : "none" });
    if (kind) cell.className = kind;
    const button = make("button", title + (state.sort === key ? (state.up ? " ▲" : " ▼") : ""), { type: "button", "data-sort": key });
    button.addEventListener("click", () => { sortBy(key); });
    cell.append(button);
    head.append(cell);
  }
  byId("standings").tHead.replaceChildren(head);
  const rows = shownRows();
  byId("standings").tBodies[0].replaceChildren(...rows.map((row) => standingsRow(row, columns)));
  const table = currentTable();
  byId("status").textContent = table
    ? `${rows.length} of ${table.rows.length} rows; ${familyCells().length} held-out cells${state.family === "all" ? "" : ` of the family ${state.family}`}.`
    : "This table has no finished rows yet.";
  byId("legend").textContent = "Gain: mean difference of area from uniform, families weighed equally. p: Wilcoxon over cells, Holm's correction; below 0.05 is called separated, and the others are grey. " +
    (state.family === "all" ? "" : "In one family there are too few cells for tests. ") + "Ties share ranks; a failed run counts as the worst. Rows without the mark “verified” were run by their authors or by us only. " +
    "The server knows: public is sizes and who is there; scalars are numbers that single clients send, such as losses and durations; labels are label counts; updates are those of single clients.";
}

function sortBy(key) {
  state.up = state.sort === key ? !state.up : ASCENDING.includes(key);
  state.sort = key;
  draw();
  document.querySelector(`[data-sort="${key}"]`).focus();
}

function standingsRow(row, columns) {
  const line = make("tr", null, { "data-row": row.row });
  if (row.row === "uniform") line.className = "baseline";
  const first = make("td");
  const box = make("input", null, { type: "checkbox", "aria-label": `${row.row} in charts` });
  box.checked = chartRows().includes(row.row);
  box.addEventListener("change", () => {
    state.shown = box.checked ? [...chartRows(), row.row] : chartRows().filter((name) => name !== row.row);
    draw();
    document.querySelector(`[data-row="${CSS.escape(row.row)}"] input`).focus();
  });
  first.append(box);
  if (box.checked) first.append(make("span", null, { class: "swatch", style: `background:${colour(row.row)}` }));
  line.append(first);
  for (const [key] of columns) line.append(standingsCell(row, key));
  return line;
}

function standingsCell(row, key) {
  if (key === "row") {
    const cell = make("td", row.row, { class: "name", title: row.configuration });
    const by = data.verified[row.row];
    if (by) cell.append(make("span", "verified", { class: "badge verified", title: by }));
    return cell;
  }
  const gainClass = (value) => (value > 0 ? "good" : value < 0 ? "bad" : "");
  switch (key) {
    case "information": return make("td", row.information, { class: "text" });
    case "gain": case "end": case "worstGain": {
      if (row.row === "uniform") return make("td", "–");
      const cell = make("td", signed(row[key]), { class: gainClass(row[key]) });
      if (key === "worstGain") cell.title = row.worstCell;
      return cell;
    }
    case "low": return make("td", row.row === "uniform" || row.low === null ? "–" : `${signed(row.low)} … ${signed(row.high)}`);
    case "pBaseline": return testCell(row.baseline);
    case "pLeader": return testCell(row.leader);
    case "better": return make("td", row.row === "uniform" ? "–" : `${row.better} / ${row.worse}`);
    case "reachedShare": return make("td", row.reached ? `${row.reached[0]}/${row.reached[1]}` : "–");
    case "failures": return make("td", String(row.failures));
    case "megabytes": case "milliseconds": return make("td", fixed(row[key], 1));
    default: return make("td", fixed(row[key], 2));
  }
}

function testCell(test) {
  if (!test) return make("td", "–");
  const cell = make("td", String(test.p), { title: `against ${test.against}${test.separated ? "" : ": not separated"}` });
  if (!test.separated) cell.className = "weak";
  return cell;
}

function simpleTable(id, titles, rows) {
  const head = make("tr");
  titles.forEach((title, column) => head.append(make("th", title, { scope: "col", class: column === 0 || TEXTS.includes(title) ? "text" : "" })));
  byId(id).tHead.replaceChildren(head);
  byId(id).tBodies[0].replaceChildren(...rows.map((cells) => {
    const line = make("tr");
    for (const cell of cells) line.append(cell instanceof Node ? cell : make("td", cell));
    return line;
  }));
}

function drawFamilies() {
  const table = currentTable();
  if (!table) return simpleTable("families", [], []);
  const families = data.families.filter((family) => currentTrack().cells.some((cell) => cell.half === "held-out" && cell.family === family));
  const count = (family) => currentTrack().cells.filter((cell) => cell.half === "held-out" && cell.family === family).length;
  const shown = shownRows().filter((row) => row.row !== "uniform");
  simpleTable("families", ["method", ...families.map((family) => `${family} (${count(family)})`)],
    shown.map((row) => [make("td", row.row, { class: "name" }), ...families.map((family) => {
      const gain = row.families[family];
      return make("td", signed(gain), { class: gain > 0 ? "good" : "bad" });
    })]));
}

function drawSensitivity() {
  const table = currentTable();
  const others = table ? table.rows.length - 1 : 0;
  const needed = 2 + Math.floor(Math.log2(others / 0.05));
  byId("possible").textContent = `Who is first when a data set is left out? ${others} tests together can separate methods only where ${needed} cells or more are left; ` +
    "below that, look at who is first and by how much.";
  simpleTable("sensitivity", ["without", "cells left", "first", "its gain", "separated from uniform", "separated from others"],
    (table ? table.sensitivity : []).map((entry) => [
      make("td", entry.without, { class: "text" }), String(entry.cells), make("td", entry.leader, { class: "text" }),
      signed(entry.gain === null ? null : 100 * entry.gain), entry.separated_from_baseline ? "yes" : "no", `${entry.separated_from} of ${entry.others}`]));
}

function drawCells() {
  const table = currentTable();
  const cells = currentTrack().cells.filter((cell) => state.family === "all" || cell.family === state.family);
  simpleTable("cells", ["cell", "half", "family", "data", "model", "clients", "cohort", currentTrack().timed ? "seconds" : "rounds", "best", "gain"],
    cells.map((cell) => {
      const figures = table && table.cells[cell.name];
      const name = make("td", null, { class: "name" });
      if (figures) {
        const button = make("button", cell.name, { type: "button", "data-cell": cell.name });
        button.addEventListener("click", () => { state.cell = cell.name; draw(); byId("cell").focus(); });
        name.append(button);
      } else name.textContent = cell.name;
      const best = figures ? Object.entries(figures.area).reduce((a, b) => (b[1] > a[1] ? b : a)) : null;
      return [name, make("td", cell.half, { class: "text" }), make("td", cell.family, { class: "text" }), make("td", cell.data, { class: "text" }),
        make("td", cell.model, { class: "text" }), cell.clients === null ? "all" : String(cell.clients), String(cell.cohort), String(cell.budget),
        make("td", best ? best[0] : "–", { class: "text" }), best ? signed(100 * (best[1] - figures.area.uniform)) : "–"];
    }));
}

// -- pictures ----------------------------------------------------------------------------------------------------------

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function ticks(low, high, count, whole) {
  const step = (high - low) / count;
  return Array.from({ length: count + 1 }, (_, k) => low + k * step).map((value) => (whole ? Math.round(value) : Math.round(100 * value) / 100));
}

function lineChart({ title, x, lines, xLabel, yLabel, yLow = 0, yHigh = 1, level = null, step = false }) {
  const [width, height, left, bottom, top] = [window.innerWidth < 600 ? 400 : 640, 340, 52, 44, 12];
  const right = 28;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const xLow = Math.min(x[0], step ? 0 : x[0]);
  const px = (value) => left + ((width - left - right) * (value - xLow)) / (x[x.length - 1] - xLow);
  const py = (value) => top + (height - top - bottom) * (1 - (value - yLow) / (yHigh - yLow));
  for (const value of ticks(yLow, yHigh, 4)) {
    picture.append(svg("path", { d: `M${left} ${py(value)}H${width - right}`, class: "axis" }), svg("text", { x: left - 6, y: py(value) + 4, "text-anchor": "end" }, value));
  }
  for (const value of ticks(xLow, x[x.length - 1], 4, x[x.length - 1] > 20)) {
    picture.append(svg("text", { x: px(value), y: height - bottom + 18, "text-anchor": "middle" }, value.toLocaleString("en")));
  }
  picture.append(svg("text", { x: (width + left) / 2, y: height - 6, "text-anchor": "middle" }, xLabel));
  picture.append(svg("text", { x: 0, y: 0, transform: `translate(13 ${height / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel));
  if (level !== null) picture.append(svg("path", { d: `M${left} ${py(level)}H${width - right}`, stroke: "currentColor", "stroke-dasharray": "3 3" }));
  for (const [name, values] of Object.entries(lines)) {
    let path = "";
    values.forEach((value, k) => {
      if (value === null) return;
      if (path && step) path += `H${px(x[k]).toFixed(1)}V${py(value).toFixed(1)}`;
      else path += `${path ? "L" : "M"}${px(x[k]).toFixed(1)} ${py(value).toFixed(1)}`;
    });
    const curve = svg("path", { d: path || "M0 0", class: "curve", stroke: colour(name), "data-line": name });
    curve.append(svg("title", {}, name));
    picture.append(curve);
  }
  const figure = make("figure");
  const caption = make("figcaption", null, { class: "soft" });
  for (const name of Object.keys(lines)) {
    caption.append(make("span", null, { class: "swatch", style: `background:${colour(name)}` }), document.createTextNode(` ${name} `));
  }
  figure.append(make("h3", title), picture, caption);
  return figure;
}

const chosen = (byRow) => Object.fromEntries(chartRows().filter((name) => name in byRow).map((name) => [name, byRow[name]]));

function drawProfiles() {
  const table = currentTable();
  const titles = { area: "Error area (1 − area)", seconds: "Seconds to target" };
  byId("profiles").replaceChildren(...Object.entries(table ? table.profiles : {}).map(([figure, byRow]) => {
    const lines = chosen(byRow);
    const last = Object.values(lines).map((shares) => shares.findIndex((share) => share === Math.max(...shares)));
    const count = Math.min(table.points.length, Math.max(8, ...last.map((index) => index + 4)));
    const cut = Object.fromEntries(Object.entries(lines).map(([name, shares]) => [name, shares.slice(0, count)]));
    return lineChart({ title: titles[figure], x: table.points.slice(0, count), lines: cut, xLabel: "factor τ of the best", yLabel: "share of cells", step: false });
  }));
}

function drawCell() {
  const box = byId("cell");
  const table = currentTable();
  const cell = currentTrack().cells.find((other) => other.name === state.cell);
  const figures = table && cell && table.cells[cell.name];
  if (!figures) return box.replaceChildren();
  const lines = chosen(figures.curves);
  const values = Object.values(lines).flat().filter((value) => value !== null);
  const yHigh = Math.min(1, Math.ceil(10 * Math.max(...values)) / 10);
  const list = make("dl");
  for (const [key, words] of Object.entries(cell.details)) list.append(make("dt", key), make("dd", words));
  const order = Object.entries(figures.area).sort((a, b) => b[1] - a[1]);
  const ranks = make("ol");
  for (const [name, area] of order.slice(0, 10)) ranks.append(make("li", `${name}: area ${(100 * area).toFixed(1)}, ${signed(100 * (area - figures.area.uniform))} over uniform`));
  box.replaceChildren(
    make("h3", cell.name), list,
    lineChart({ title: `Test accuracy, mean of ${cell.seeds} seeds`, x: figures.grid, lines, xLabel: currentTrack().timed ? "simulated seconds" : "rounds", yLabel: "accuracy",
      yHigh, level: figures.target, step: true }),
    make("p", figures.target === null ? "" : `The dashed line is the target, ${(100 * figures.target).toFixed(1)} %: what uniform has at half of the time.`, { class: "soft" }),
    make("h3", "The ten best here"), ranks);
}

// -- all of it ---------------------------------------------------------------------------------------------------------

function options(select, values, current) {
  select.replaceChildren(...values.map(([value, text]) => {
    const option = make("option", text, { value });
    option.selected = value === current;
    return option;
  }));
}

function drawFilters() {
  byId("tracks").replaceChildren(...tracks.map((track) => {
    const button = make("button", track, { type: "button", "aria-pressed": String(track === state.track), "data-track": track });
    button.addEventListener("click", () => { Object.assign(state, { track, family: "all", cell: "", shown: null }); draw(); document.querySelector(`[data-track="${track}"]`).focus(); });
    return button;
  }));
  const titles = Object.keys(currentTrack().tables);
  if (!titles.includes(state.table)) state.table = titles[0] || "default";
  options(byId("table"), titles.map((title) => [title, title]), state.table);
  const classes = [...new Set((currentTable() ? currentTable().rows : []).map((row) => row.information))].sort();
  if (!classes.includes(state.information)) state.information = "all";
  options(byId("information"), [["all", "anything"], ...classes.map((name) => [name, name])], state.information);
  const families = data.families.filter((family) => currentTrack().cells.some((cell) => cell.family === family && cell.half === "held-out"));
  if (!families.includes(state.family)) state.family = "all";
  options(byId("family"), [["all", "all, weighed equally"], ...families.map((name) => [name, name])], state.family);
}

function wordsItem(sentence) { // every second piece stands between backticks
  const item = make("li");
  item.append(...sentence.split("`").map((piece, position) => (position % 2 ? make("code", piece) : piece)));
  return item;
}

function drawWords() {
  const table = currentTable();
  byId("question").textContent = QUESTIONS[state.track];
  const unfinished = Object.entries((currentTrack().unfinished || {})[state.table] || {}).map(([row, runs]) => `${row} (lacks ${runs} runs)`);
  const words = [...(table ? table.words : []), ...(unfinished.length ? [`Preliminary: ranks and tests are of the finished rows alone, and will change. Not finished, hence without a rank: ${unfinished.join(", ")}.`] : [])];
  if (currentTrack().overCap.length) words.push(`Without a rank, since they took more hours than the rules allow: ${currentTrack().overCap.join(", ")}.`);
  byId("words").replaceChildren(...words.map(wordsItem));
  byId("words-section").hidden = !words.length;
  byId("diagram").innerHTML = table ? table.diagram : ""; // made by us, names are escaped there
  for (const id of ["difference", "profiles-section", "families-section", "sensitivity-section"]) byId(id).hidden = !table;
}

function remember() {
  const parts = ["track", "table", "information", "family", "cell", "sort"].map((key) => `${key}=${encodeURIComponent(state[key])}`);
  history.replaceState(null, "", `#${parts.join("&")}`);
}
function recall() {
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    if (value !== undefined && ["track", "table", "information", "family", "cell", "sort"].includes(key)) state[key] = decodeURIComponent(value);
  }
  if (!tracks.includes(state.track)) state.track = firstTrack;
  if (!COLUMNS.some(([key]) => key === state.sort)) state.sort = "rank";
  state.up = ASCENDING.includes(state.sort);
}

function draw() {
  drawFilters(); drawWords(); drawStandings(); drawProfiles(); drawFamilies(); drawSensitivity(); drawCells(); drawCell(); remember();
}

byId("about").textContent = `${data.suite} · ${data.runs.toLocaleString("en")} runs · Sortition ${data.sortition} · ${data.date}`;
byId("absent").textContent = "Without a row: " + Object.entries(data.absent).map(([name, reason]) => `${name} (${reason})`).join("; ") + ".";
for (const key of ["table", "information", "family"]) byId(key).addEventListener("change", (event) => { state[key] = event.target.value; state.shown = key === "table" ? null : state.shown; draw(); });
byId("find").addEventListener("input", (event) => { state.find = event.target.value; drawStandings(); drawFamilies(); });
byId("filters").addEventListener("submit", (event) => event.preventDefault());
recall();
draw();
document.body.dataset.ready = "yes";
