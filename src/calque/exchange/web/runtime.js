// onnxruntime, which stands beside this folder. Its modules are named `.js` there, since some web servers know no `.mjs`.

const at = (name) => new URL(`../runtime/${name}`, import.meta.url).href;

export async function runtime() {
  const ort = await import(at("ort.wasm.min.js"));
  ort.env.wasm.wasmPaths = { mjs: at("ort-wasm-simd-threaded.js"), wasm: at("ort-wasm-simd-threaded.wasm") };
  ort.env.wasm.numThreads = 1; // two took longer with a small model, and larger ones stood still
  return ort;
}
