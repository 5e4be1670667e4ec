// The three graphs of a model, run by onnxruntime.

export class Graphs {
  // `load(name)` gives the bytes of a file of the model; `ort` is onnxruntime.
  static async open(ort, about, load) {
    const made = new Graphs();
    made.ort = ort;
    made.about = about;
    const externalData = [{ path: about.numbers, data: await load(about.numbers) }];
    for (const name of ["encoder", "init", "step"])
      made[name] = await ort.InferenceSession.create(await load(`${name}.onnx`), { externalData });
    return made;
  }

  // The function that makes the steps of a search for a source.
  async begin(ids) {
    const { source_positions: positions, source_end: ends, pad, end, states } = this.about;
    const source = new BigInt64Array(positions).fill(BigInt(pad));
    const closed = ends ? [...ids, end] : ids;
    closed.forEach((id, k) => (source[k] = BigInt(id)));
    const mask = Uint8Array.from({ length: positions }, (_, k) => Number(k < closed.length));
    const known = { source: this.#whole(source, [1, positions]), mask: new this.ort.Tensor("bool", mask, [1, positions]) };
    let state = await this.#run(this.init, { ...known, ...(await this.#run(this.encoder, known)) });
    return async (words, parents) => {
      const row = (numbers, shape) => this.#whole(BigInt64Array.from(numbers, BigInt), shape);
      const given = { ...state, word: row(words, [words.length, 1]), parents: row(parents, [parents.length]) };
      const after = await this.#run(this.step, given);
      for (const { name, next } of states) if (next) state[name] = after[next];
      const { values, words: chosen, end: ended } = after;
      return { values: values.data, words: chosen.data, end: ended.data };
    };
  }

  #whole(numbers, shape) {
    return new this.ort.Tensor("int64", numbers, shape);
  }

  #run(session, given) {
    return session.run(Object.fromEntries(session.inputNames.map((name) => [name, given[name]])));
  }
}
