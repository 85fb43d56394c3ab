"use strict";
// The engine's hand on the GPU. Go talks to it in numbers: it keeps the device's objects under the numbers that Go gave
// them, so that a token costs one call from Go, replay, however many dispatches that takes.

// attachGPU returns the functions that work on device. It calls ready(stage) when the bytes of a replay are there, and
// ready(stage, message) when they will never be.
globalThis.attachGPU = (device, ready) => {
	const {queue} = device;
	const buffers = new Map(), pipelines = new Map(), groups = new Map(), recordings = new Map();
	const bytes = new Uint8Array(1 << 20); // what Go hands over: data to write, or dispatches
	const words = new Uint32Array(bytes.buffer);
	const commands = [null]; // the list that submit wants
	const stages = [];
	let next = 0; // the stage that the next replay takes
	let open = true;

	const submit = (encoder) => {
		commands[0] = encoder.finish();
		queue.submit(commands);
	};

	// writes does the n bytes of writes that Go has gathered: buffer, offset and length of each, and its bytes.
	const writes = (n) => {
		for (let at = 0; at < n;) {
			const size = words[at / 4 + 2];
			queue.writeBuffer(buffers.get(words[at / 4]), words[at / 4 + 1], bytes, at + 12, size);
			at += 12 + size;
		}
	};

	// decode reads n dispatches of five words each: pipeline, group and the numbers of workgroups.
	const decode = (n) => {
		const list = [];
		for (let i = 0; i < 5 * n; i += 5) {
			const pipeline = pipelines.get(words[i]), group = groups.get(words[i + 1]);
			list.push({pipeline, group, x: words[i + 2], y: words[i + 3], z: words[i + 4]});
		}
		return list;
	};

	const encode = (encoder, list) => {
		const pass = encoder.beginComputePass();
		let bound = null;
		for (const {pipeline, group, x, y, z} of list) {
			if (pipeline !== bound) pass.setPipeline(bound = pipeline);
			pass.setBindGroup(0, group);
			pass.dispatchWorkgroups(x, y, z);
		}
		pass.end();
	};

	const staging = (size) => device.createBuffer({label: "staging", size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST});

	// stage is one of the buffers that results come through, with the functions that wait for it, made once.
	const stage = (index, size) => {
		const buffer = staging(size);
		const copy = new Uint8Array(size);
		let n = 0;
		const mapped = () => {
			if (!open) return;
			copy.set(new Uint8Array(buffer.getMappedRange(0, n)));
			buffer.unmap();
			ready(index);
		};
		const failed = (reason) => {
			if (open) ready(index, String(reason?.message ?? reason));
		};
		const map = (size) => {
			n = size;
			buffer.mapAsync(GPUMapMode.READ, 0, n).then(mapped).catch(failed);
		};
		return {buffer, copy, map};
	};

	return {
		bytes, buffers, pipelines, groups, recordings,

		writes,
		write: (id, offset, n) => queue.writeBuffer(buffers.get(id), offset, bytes, 0, n),
		writeFrom: (id, offset, chunk, from, n) => queue.writeBuffer(buffers.get(id), offset, chunk, from, n),

		copy(to, toOffset, from, fromOffset, n) {
			const encoder = device.createCommandEncoder();
			encoder.copyBufferToBuffer(buffers.get(from), fromOffset, buffers.get(to), toOffset, n);
			submit(encoder);
		},

		// read gives a copy of n bytes once all that was submitted is done. Want of memory is an error with memory set.
		async read(id, offset, n) {
			device.pushErrorScope("out-of-memory");
			const buffer = staging(n);
			try {
				const refused = await device.popErrorScope();
				if (refused) throw Object.assign(new Error(refused.message), {memory: true});
				const encoder = device.createCommandEncoder();
				encoder.copyBufferToBuffer(buffers.get(id), offset, buffer, 0, n);
				submit(encoder);
				await buffer.mapAsync(GPUMapMode.READ, 0, n);
				return new Uint8Array(buffer.getMappedRange(0, n).slice());
			} finally {
				buffer.destroy();
			}
		},

		// compile gives a pipeline, or an error with the line and column in the shader.
		async compile(layout, label, code, entryPoint) {
			device.pushErrorScope("validation");
			const module = device.createShaderModule({label, code});
			device.popErrorScope().catch(() => {}); // the error is told below, with its place
			try {
				return await device.createComputePipelineAsync({label, layout, compute: {module, entryPoint}});
			} catch (reason) {
				const first = (await module.getCompilationInfo()).messages.find(({type}) => type === "error");
				const {message, lineNum, linePos} = first ?? {message: reason.message, lineNum: 0, linePos: 0};
				throw Object.assign(new Error(message), {line: lineNum, column: linePos});
			}
		},

		run(n) {
			const encoder = device.createCommandEncoder();
			encode(encoder, decode(n));
			submit(encoder);
		},

		// stage makes one more staging buffer and returns the array that will hold its bytes.
		stage(size) {
			stages.push(stage(stages.length, size));
			return stages.at(-1).copy;
		},

		record: (id, n, read, offset, size) => recordings.set(id, {list: decode(n), source: buffers.get(read), offset, size}),

		// replay does writes of n bytes first.
		replay(id, n) {
			writes(n);
			const {list, source, offset, size} = recordings.get(id);
			const {buffer, map} = stages[next];
			const encoder = device.createCommandEncoder();
			encode(encoder, list);
			encoder.copyBufferToBuffer(source, offset, buffer, 0, size);
			submit(encoder);
			map(size);
			next = (next + 1) % stages.length;
		},

		unstage() {
			for (const {buffer} of stages.splice(0)) buffer.destroy();
		},

		close() {
			open = false;
			for (const {buffer} of stages) buffer.destroy();
			for (const buffer of buffers.values()) buffer.destroy();
			for (const table of [buffers, pipelines, groups, recordings]) table.clear();
			device.destroy();
		},
	};
};
