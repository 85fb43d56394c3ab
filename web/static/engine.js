"use strict";
// The engine's worker: loads the Go program and its SIMD module, which lie beside this script, and runs it. Whatever goes
// wrong is told to the page as a string; packets are ArrayBuffers.
(() => {
  let told = false;
  const tell = (what) => {
    if (told) return;
    told = true;
    self.postMessage(String(what));
  };
  self.addEventListener("error", (event) => tell(event.message));
  self.addEventListener("unhandledrejection", ({reason}) => {
    if (reason instanceof WebAssembly.RuntimeError) tell(reason.message); // a promise of ours ran into Go's end
  });

  const get = async (name) => {
    const response = await fetch(new URL(name, self.location.href));
    if (!response.ok) throw new Error(`${name}: status ${response.status}`);
    return response;
  };

  // compile streams where server and browser can; a static host may not know the type of .wasm files.
  const compile = async (response) => {
    const type = (response.headers.get("Content-Type") ?? "").split(";")[0].trim().toLowerCase();
    if (WebAssembly.compileStreaming && type === "application/wasm") return WebAssembly.compileStreaming(response);
    return WebAssembly.compile(await response.arrayBuffer());
  };

  const run = async () => {
    importScripts("../wasm_exec.js", "simd.js", "gpu.js");
    const [module, simd] = await Promise.all([
      get("engine.wasm").then(compile),
      get("simd.wasm").then((r) => r.arrayBuffer()),
    ]);

    // Go writes its last words, a panic and its stack, to file 2.
    let words = "";
    const {fs} = globalThis;
    const write = fs.writeSync;
    const decoder = new TextDecoder();
    fs.writeSync = (fd, bytes) => {
      if (fd === 2 && words.length < 4000) words += decoder.decode(bytes);
      return write.call(fs, fd, bytes);
    };

    const go = new Go();
    go.exit = () => {};
    const attach = await attachSimd(go, module, simd);
    const instance = await WebAssembly.instantiate(module, go.importObject);
    await attach(instance);
    self.wasm = {instance};
    await go.run(instance);
    tell(`the engine's program ended\n${words}`);
  };
  run().catch((err) => tell(err?.stack ?? err));
})();
