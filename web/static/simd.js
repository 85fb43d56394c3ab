"use strict";
// The engine's hot loops are a second, small WebAssembly module that works in place on Go's memory. Go imports its
// functions under the module name "simd"; Go's memory exists only after Go's module is instantiated, so the imports
// are forwarding functions first and are bound to the kernels afterwards.

// attachSimd prepares go.importObject for engineModule, and returns a function to call with the instance before
// go.run. simdBytes are the bytes of simd.wasm. Where the browser lacks SIMD, the import "available" tells Go so, and Go
// never calls the others.
globalThis.attachSimd = async (go, engineModule, simdBytes) => {
	const ok = WebAssembly.validate(simdBytes);
	let kernels = {};
	const imports = {};
	for (const {module, name} of WebAssembly.Module.imports(engineModule)) {
		if (module === "simd") imports[name] = (...args) => kernels[name](...args);
	}
	imports.available = () => (ok ? 1 : 0);
	go.importObject.simd = imports;
	return async (instance) => {
		if (!ok) return;
		const {instance: simd} = await WebAssembly.instantiate(simdBytes, {env: {memory: instance.exports.mem}});
		kernels = simd.exports;
	};
};
