// Builds dist/ and NOTICE from src/ and node_modules/, the same bytes for the same lock file.
import { build } from "esbuild";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";

const bundle = (entry, outfile, format) => build({
  entryPoints: [`src/${entry}`], outfile: `dist/${outfile}`, bundle: true, minify: true, format, target: "es2022",
  charset: "ascii", legalComments: "none", metafile: true, logLevel: "warning",
});

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
const results = await Promise.all([
  bundle("main.ts", "app.js", "iife"), bundle("login.ts", "login.js", "iife"),
  bundle("send-worker.ts", "send-worker.js", "iife"), bundle("service-worker.ts", "sw.js", "iife"),
  bundle("style.css", "style.css", undefined),
]);
for (const page of ["index.html", "login.html", "mobile.html", "favicon.svg"]) copyFileSync(`src/${page}`, `dist/${page}`);

// The notice names every package whose code really is in the bundles, with its own licence text.
const inputs = results.flatMap((result) => Object.keys(result.metafile.inputs));
const packages = [...new Set(inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean))].sort();
const notices = packages.map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).filter((entry) => /^licen[cs]e/i.test(entry)).sort()[0];
  if (!file || !existsSync(`${folder}/${file}`)) throw new Error(`${name} ships no licence text`);
  const text = readFileSync(`${folder}/${file}`, "utf8").replaceAll("\r\n", "\n").trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
});
const rule = `\n${"-".repeat(78)}\n\n`;
writeFileSync("NOTICE", `The built page in dist/ contains code of the packages below, each under its own licence.\n${rule}${notices.join(rule)}`);
