// onnxruntime, which stands beside this folder. Its modules are named `.js` there, since some web servers know no `.mjs`.

const at = (name) => new URL(`../runtime/${name}`, import.meta.url).href;

export async function runtime() {
  const ort = await import(at("ort.wasm.min.js"));
  ort.env.wasm.wasmPaths = { mjs: at("ort-wasm-simd-threaded.js"), wasm: at("ort-wasm-simd-threaded.wasm") };
  // Several threads share memory, which browsers allow pages that are isolated from others.
  ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  return ort;
}
