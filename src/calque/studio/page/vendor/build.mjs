// Writes codemirror.js and LICENSE.txt. Called by `make vendor-codemirror` in a folder with the packages: node build.mjs OUT
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const out = process.argv[2];
await build({
  entryPoints: ["entry.js"], bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none",
  outfile: `${out}/codemirror.js`,
});
const packages = Object.entries(JSON.parse(readFileSync("package.json", "utf8")).dependencies).filter(([name]) => name !== "esbuild");
const licences = packages.map(([name, version]) => {
  const folder = `node_modules/${name}`;
  const file = readdirSync(folder).find((f) => /^licen[sc]e/i.test(f));
  return `\n----\n${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8")}`;
});
writeFileSync(`${out}/LICENSE.txt`, `codemirror.js holds these packages, all under the MIT licence.\n${licences.join("")}`);
