// The picture of the text: the shapes that the server lays out, as SVG that can be pointed at, folded and coloured.
import { byId, full, roving, svg } from "./dom.js";
import { emit, on, point, rowsOf, shared } from "./shared.js";

const HEADED = 5, CORNER = 5;
const NAMES = { parameters: "parameters", products: "multiply-adds per step", state_bytes: "bytes of state", hops: "path length" };

export function begin() {
  on("checked", draw);
  on("point", ({ keys }) => mark(keys, "on"));
  on("changed", (keys) => mark(keys, "changed"));
  byId("colour").addEventListener("change", draw);
  byId("fold").addEventListener("click", () => fold(repeats()));
  byId("unfold").addEventListener("click", () => fold([]));
  const fit = byId("fit"), show = () => byId("picture").classList.toggle("fit", fit.checked);
  fit.checked = window.matchMedia("(max-width: 860px)").matches;
  fit.addEventListener("change", show);
  show();
}

/** The paths of all repetitions that are drawn, folded or not. */
function repeats() {
  const drawn = shared.good.picture;
  return [...shared.folded, ...drawn.frames.filter((f) => f.kind === "repeat").map((f) => f.path)];
}

function fold(paths) {
  shared.folded = new Set(paths);
  emit("ask");
}

/** The figure by which a box is coloured: that of its layer, or the sum inside a folded repetition; null where there is none. */
function value(key, by) {
  const layers = rowsOf(key).filter((row) => row.whole);
  const inside = layers.filter((row) => !layers.some((other) => row.key.startsWith(`${other.key}.`)));
  if (!key || !inside.length) return null;
  const each = inside.map((row) => row[by]);
  return by === "hops" ? (each.includes(null) ? null : Math.max(...each)) : each.reduce((a, b) => a + b, 0);
}

function draw() {
  const holder = byId("picture"), reply = shared.good;
  holder.classList.toggle("stale", !shared.reply?.ok);
  if (!shared.reply?.ok || !reply) return;
  const { picture } = reply, by = byId("colour").value;
  const focused = document.activeElement?.dataset?.fold;
  const most = by ? Math.max(0, ...picture.boxes.map((box) => value(box.key, by) ?? 0)) : 0;
  byId("scale").textContent = by ? `darkest: ${full(most)} ${NAMES[by]}` : "";
  const title = `The network: ${reply.rows.length} layers`;
  // The place of a title, which the page does not have, stays out.
  const top = Math.min(...picture.words.filter((w) => w.text).map((w) => w.y - w.size), ...picture.frames.map((f) => f.room.y)) - 6;
  const w = picture.width, h = picture.height - top;
  const drawing = svg("svg", { width: w, height: h, viewBox: `0 ${top} ${w} ${h}`, role: "group", "aria-label": title });
  drawing.append(
    ...picture.frames.map(frame),
    ...picture.lines.map(line),
    ...picture.dots.map((d) => svg("circle", { cx: d.x, cy: d.y, r: 3, class: "source-dot" })),
    ...picture.boxes.map((box) => boxed(box, by, most)),
    ...picture.words.filter((w) => w.text).map(word),
  );
  holder.replaceChildren(drawing);
  roving(holder, "[data-key]:not([data-key='']), [data-fold]");
  const again = focused && [...holder.querySelectorAll("[data-fold]")].find((node) => node.dataset.fold === focused);
  if (again) again.focus();
}

function mark(keys, name) {
  for (const node of byId("picture").querySelectorAll("[data-key]")) {
    const key = node.dataset.key;
    const inside = key && node.dataset.fold !== undefined && [...keys].some((other) => other.startsWith(`${key}.`));
    node.classList.toggle(name, Boolean(key) && (keys.has(key) || (inside && node.classList.contains("box"))));
  }
}

const word = (w) =>
  svg("text", { x: w.x, y: w.y, "font-size": w.size, "text-anchor": w.anchor, "font-weight": w.bold ? "bold" : null, class: tone(w.colour) }, w.text);

const tone = (colour) => (colour === "#9a4a08" ? "read" : colour === "#666666" ? "quiet" : null);

function frame(f) {
  const r = f.room;
  const group = svg("g", { class: `frame ${f.kind}`, "data-key": f.key || null });
  group.append(svg("rect", { x: r.x, y: r.y, width: r.w, height: r.h, rx: 6 }), word(f.title));
  if (f.kind === "repeat") folding(group, f.path, `fold ${f.title.text}`, r, f.title.anchor === "start");
  return group;
}

/** Makes a group a button that folds or unfolds. */
function folding(group, path, label, r, right) {
  const x = right ? r.x + r.w - 16 : r.x + 5;
  const click = () => {
    const next = new Set(shared.folded);
    if (!next.delete(path)) next.add(path);
    fold([...next]);
  };
  const button = svg("g", { class: "fold", role: "button", "aria-label": label, "data-fold": path, onclick: click });
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    click();
  });
  const sign = shared.folded.has(path) ? "M3 5.5H8M5.5 3V8" : "M3 5.5H8";
  button.append(
    svg("rect", { x: x - 4, y: r.y, width: 19, height: 19, class: "target" }),
    svg("rect", { x, y: r.y + 4, width: 11, height: 11, rx: 2 }),
    svg("path", { d: sign, transform: `translate(${x} ${r.y + 4})` }),
  );
  group.append(button);
}

function boxed(box, by, most) {
  const r = box.room, heat = by ? value(box.key, by) : null;
  const group = svg("g", { class: `box ${box.kind}${by && box.key ? " heated" : ""}`, "data-key": box.key });
  const share = most && heat ? Math.round(8 + 54 * (heat / most)) : 0;
  const label = [box.about.replaceAll("\n", ", ") || box.words.map((w) => w.text).join(" "), heat === null ? "" : `${full(heat)} ${NAMES[by]}`];
  group.append(
    svg("title", {}, [box.about, heat === null ? null : `${full(heat)} ${NAMES[by]}`].filter(Boolean).join("\n")),
    svg("rect", { x: r.x, y: r.y, width: r.w, height: r.h, rx: box.round, style: by && box.key ? `--share: ${share}%` : null }),
    ...box.words.map(word),
  );
  if (!box.key) return group;
  group.setAttribute("role", "img");
  group.setAttribute("aria-label", label.filter(Boolean).join("; "));
  const keys = () => rowsOf(box.key).map((row) => row.key);
  group.addEventListener("pointerenter", () => point(keys(), "picture"));
  group.addEventListener("focus", () => point(keys(), "picture"));
  group.addEventListener("pointerleave", () => point([], "picture"));
  group.addEventListener("click", () => emit("goto", box.key));
  if (shared.folded.has(box.path)) {
    group.removeAttribute("role");
    folding(group, box.path, `unfold ${box.words[0]?.text ?? ""}`, { ...r, w: r.w + 1 }, true);
  }
  return group;
}

function line(route) {
  const way = path(route.corners, route.head ? HEADED : 0);
  const group = svg("g", { class: `route ${route.kind}` }, svg("path", { d: way }));
  if (route.head) {
    const [[x0, y0], [x, y]] = route.corners.slice(-2);
    const dx = Math.sign(x - x0), dy = Math.sign(y - y0);
    const back = [1, -1].map((k) => `${x - HEADED * dx + k * 3.2 * dy},${y - HEADED * dy + k * 3.2 * dx}`);
    group.append(svg("polygon", { points: [`${x},${y}`, ...back].join(" ") }));
  }
  return group;
}

/** A path with rounded corners that ends `short` before its end. */
function path(corners, less) {
  const far = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]);
  const towards = (a, b, by) => [a[0] + by * Math.sign(b[0] - a[0]), a[1] + by * Math.sign(b[1] - a[1])];
  const parts = [`M${corners[0].join(" ")}`];
  for (let k = 1; k + 1 < corners.length; k++) {
    const [before, here, after] = corners.slice(k - 1, k + 2);
    const r = Math.min(CORNER, far(before, here) / 2, far(here, after) / 2);
    parts.push(`L${towards(here, before, r).join(" ")}Q${here.join(" ")} ${towards(here, after, r).join(" ")}`);
  }
  return `${parts.join("")}L${towards(corners.at(-1), corners.at(-2), less).join(" ")}`;
}

