// Draws the rows of a section into its table. Rows and cells are kept across refreshes and changed in place, so that
// focus, selection and scrolling survive. Data becomes text only: `require-trusted-types-for` forbids the rest.

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setTone(element, tone) {
  const wanted = tone || "plain";
  if (element.dataset.tone !== wanted) element.dataset.tone = wanted;
}

// Keep as many children as there are items, and let `draw` change each of them.
export function fill(parent, items, make, draw) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(make());
  items.forEach((item, index) => draw(parent.children[index], item));
}

export function drawSection(section, data) {
  const table = section.querySelector("table");
  const columns = [...table.tHead.rows[0].cells].map((head) => ({
    key: head.dataset.key,
    label: head.textContent,
    kind: head.className,
  }));
  drawRows(table.tBodies[0], columns, data.rows);
  table.hidden = data.rows.length === 0;
  const notes = [...(data.rows.length ? [] : [data.empty]), ...(data.more ? [data.more] : []), ...data.notes];
  fill(notesOf(section), notes, () => element("p"), setText);
}

function notesOf(section) {
  let notes = section.querySelector(".notes");
  if (!notes) {
    notes = element("div");
    notes.className = "notes";
    section.append(notes);
  }
  return notes;
}

function drawRows(body, columns, rows) {
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach((data, index) => {
    const row = known.get(data.key) ?? newRow(data.key, columns);
    known.delete(data.key);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
    columns.forEach((column, number) => drawCell(row.cells[number], data.cells[column.key]));
  });
  known.forEach((row) => row.remove());
}

// Narrow screens show rows as blocks, which takes the meaning of table elements away: the roles give it back.
function newRow(key, columns) {
  const row = element("tr");
  row.dataset.key = key;
  row.setAttribute("role", "row");
  columns.forEach((column, number) => {
    const cell = element(number ? "td" : "th");
    if (!number) cell.scope = "row";
    cell.setAttribute("role", number ? "cell" : "rowheader");
    cell.dataset.label = column.label;
    cell.className = column.kind;
    cell.append(part("text"), part("bar"), part("note"));
    row.append(cell);
  });
  return row;
}

function drawCell(cell, data) {
  const [text, bar, note] = cell.children;
  setText(text, data.text);
  setTone(text, data.tone);
  setText(note, data.note);
  if (data.meter) drawMeter(bar, data);
  else drawParts(bar, data.parts ?? []);
  cell.classList.toggle("empty", !data.text && !data.note);
}

function drawMeter(bar, data) {
  fill(bar, [data], () => element("meter"), (meter, { meter: { value, max }, text }) => {
    if (meter.max !== max) meter.max = max;
    if (meter.value !== value) meter.value = value;
    meter.setAttribute("aria-label", text);
  });
}

// The note below the bar has the same in words.
function drawParts(bar, parts) {
  bar.setAttribute("aria-hidden", "true");
  fill(bar, parts, () => element("i"), (one, { name, seconds }) => {
    one.dataset.phase = name;
    one.style.flexGrow = String(seconds);
  });
}

function part(kind) {
  const made = element(kind === "note" ? "small" : "span");
  made.className = kind;
  return made;
}

function element(name) {
  return document.createElement(name);
}
