// Reads data.json every few seconds and draws it.

import { drawSection, fill, setText, setTone } from "./table.js";

const EVERY_MS = 5000;
const SLOW_MS = 10000;
const FEW_REASONS = 3;
const SECTIONS = ["jobs", "nodes", "pools", "queues", "cost", "ended"];
const byId = (id) => document.getElementById(id);
const state = byId("state");
const pause = byId("pause");

let paused = false;
let timer;

function draw(data) {
  document.title = `${data.title}: ${data.tiles.map((tile) => `${tile.label} ${tile.value}`).join(", ")}`;
  setText(byId("title"), data.title);
  setText(byId("about"), data.about.join(" · "));
  setText(byId("clock"), data.clock);
  fill(byId("tiles"), data.tiles, newTile, drawTile);
  for (const list of ["problems", "unknown"]) {
    byId(list).hidden = data[list].length === 0;
    fill(byId(list).querySelector("ul"), data[list], () => document.createElement("li"), setText);
  }
  drawUnknown(data.unknown.length);
  for (const name of SECTIONS) drawSection(byId(name), data[name]);
}

// Who may read little gets many reasons: they must not push the jobs off the screen.
function drawUnknown(number) {
  setText(byId("unknown-heading"), `Could not be read (${number})`);
  const details = byId("unknown").querySelector("details");
  if (!details.dataset.drawn) details.open = number <= FEW_REASONS;
  details.dataset.drawn = "yes";
}

function newTile() {
  const tile = document.createElement("div");
  tile.append(...["dt", "dd", "dd"].map((name) => document.createElement(name)));
  return tile;
}

function drawTile(tile, data) {
  const [label, value, note] = tile.children;
  setText(label, data.label);
  setText(value, data.value);
  setTone(value, data.tone);
  setText(note, data.note);
}

// Screen readers announce the state: it changes only when there is news.
function show(text, tone) {
  setText(state, text);
  setTone(state, tone);
}

async function refresh() {
  const slow = setTimeout(() => show("Waiting for the cluster's answer", "doubtful"), SLOW_MS);
  try {
    const answer = await fetch("data.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    const data = await answer.json();
    draw(data);
    if (data.stale) show(`Not current: ${data.stale}`, "bad");
    else show(paused ? "Paused" : "Live, every 5 s", paused ? "doubtful" : "good");
  } catch (error) {
    show(`Not current: the dashboard does not answer (${error.message}). Start it again and open its new URL.`, "bad");
  } finally {
    clearTimeout(slow);
  }
}

async function loop() {
  clearTimeout(timer);
  if (!document.hidden) await refresh();
  clearTimeout(timer);
  if (!paused) timer = setTimeout(loop, EVERY_MS);
}

pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  setText(pause, paused ? "Resume" : "Pause");
  if (paused) {
    clearTimeout(timer);
    show("Paused", "doubtful");
  } else {
    loop();
  }
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) loop();
});
loop();
