// Lines over a common axis, as SVG.
import { svg, short } from "./dom.js";

const W = 360, H = 170, LEFT = 46, RIGHT = 10, TOP = 20, BOTTOM = 30;

/** A plot of `series`: [{name, points: [[x, y]]}]. The y axis begins at zero unless `low` says otherwise. */
export function plot({ title, x, series, low = 0, high = null }) {
  const points = series.flatMap((s) => s.points).filter(([, v]) => v !== null);
  const far = Math.max(1, ...points.map(([u]) => u));
  const top = high ?? (Math.max(...points.map(([, v]) => v), low) * 1.05 || 1);
  const px = (u) => LEFT + ((W - LEFT - RIGHT) * u) / far;
  const py = (v) => TOP + (H - TOP - BOTTOM) * (1 - (Math.min(v, top) - low) / (top - low || 1));
  const last = series.map((s) => `${s.name} ${s.points.length ? short(s.points.at(-1)[1]) : "none"}`).join(", ");
  const drawn = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": `${title}: at the end ${last}` });
  drawn.append(svg("text", { x: LEFT, y: 12, class: "plot-title" }, title));
  for (const part of [0, 0.5, 1]) {
    const v = low + (top - low) * part;
    drawn.append(
      svg("line", { x1: LEFT, x2: W - RIGHT, y1: py(v), y2: py(v), class: "grid" }),
      svg("text", { x: LEFT - 5, y: py(v) + 4, "text-anchor": "end" }, short(v)),
      svg("text", { x: px(far * part), y: H - BOTTOM + 14, "text-anchor": part ? (part === 1 ? "end" : "middle") : "start" }, short(far * part)),
    );
  }
  drawn.append(svg("text", { x: W - RIGHT, y: H - 3, "text-anchor": "end", class: "quiet" }, x));
  series.forEach((s, k) => {
    const line = s.points.filter(([, v]) => v !== null);
    const d = line.map(([u, v], i) => `${i ? "L" : "M"}${px(u).toFixed(1)} ${py(v).toFixed(1)}`).join("");
    drawn.append(svg("path", { d, class: `line line-${k}` }));
    if (line.length < 30) line.forEach(([u, v]) => drawn.append(svg("circle", { cx: px(u), cy: py(v), r: 2.2, class: `dot dot-${k}` })));
    if (series.length > 1) drawn.append(svg("text", { x: LEFT + 4 + k * 130, y: H - 3, class: `name name-${k}` }, `${k ? "- -" : "—"} ${s.name}`));
  });
  return drawn;
}
