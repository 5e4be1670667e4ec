// Does what it is asked, a line of JSON each, with the modules of an exported page: `node web_peer.mjs FOLDER`. It has the graphs run by
// whoever asks: a line {run, inputs} is answered by one with the outputs.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.argv[2]}/`);
const { Translator } = await import(new URL("translator/translator.js", folder));
const { between, sentencesIn } = await import(new URL("translator/sentences.js", folder));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => {
  const { value, done } = await lines.next();
  return done ? null : JSON.parse(value);
};
const write = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const ARRAYS = { int64: BigInt64Array, float32: Float32Array, bool: Uint8Array };

class Tensor {
  constructor(type, data, dims) {
    Object.assign(this, { type, data, dims });
  }
  toJSON() {
    const { buffer, byteOffset, byteLength } = this.data;
    return { type: this.type, data: Buffer.from(buffer, byteOffset, byteLength).toString("base64"), dims: this.dims };
  }
  static from([name, { type, data, dims }]) {
    const bytes = Uint8Array.from(Buffer.from(data, "base64"));
    return [name, new Tensor(type, new ARRAYS[type](bytes.buffer), dims)];
  }
}

const asked = async (question) => {
  write(question);
  return read();
};
const InferenceSession = {
  create: async (name) => ({
    inputNames: await asked({ inputs_of: name }),
    run: async (inputs) => Object.fromEntries((await asked({ run: name, inputs })).map(Tensor.from)),
  }),
};

const about = JSON.parse(await readFile(new URL("model/model.json", folder), "utf8"));
const translator = await Translator.open({ InferenceSession, Tensor }, about, async (name) => name);
const can = {
  read: ([line, tag]) => translator.reading.encode(line, tag),
  cut: (line) => translator.reading.pieces.encode(line),
  join: (ids) => translator.target.decode(ids),
  sentences: (line) => sentencesIn(line),
  between: ([sentence, space, translation]) => between(sentence, space, translation),
  parts: (sentence) => translator.fitting(sentence, ""),
  translate: ([text, count, target]) => translator.translate(text, { count, target: target ?? undefined }),
};
write({ ready: true });
for (let question = await read(); question !== null; question = await read()) {
  const answers = [];
  for (const one of question.of) answers.push(await can[question.can](one));
  write({ answers });
}
