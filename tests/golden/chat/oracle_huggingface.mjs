// Second oracle of the chat template tests: npm @huggingface/jinja, the engine of transformers.js.
//
// usage: node oracle_huggingface.mjs NODE_MODULES CASES RESULTS
// Formats of CASES and RESULTS: see oracle_jinja2.py; "now" is not used: this engine takes the time from the clock.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, casesPath, resultsPath] = process.argv.slice(2);
const { Template } = await import(pathToFileURL(path.join(modules, "@huggingface/jinja/dist/index.js")).href);

const results = [];
for (const line of fs.readFileSync(casesPath, "utf-8").split("\n")) {
  if (line === "") continue;
  const test = JSON.parse(line);
  try {
    results.push({ ok: true, text: new Template(test.template).render(test.variables) });
  } catch (error) {
    results.push({ ok: false, error: String(error) });
  }
}
fs.writeFileSync(resultsPath, results.map((result) => JSON.stringify(result) + "\n").join(""));
