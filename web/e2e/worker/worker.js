"use strict";
// Runs one Go test binary. The file system that Go sees asks the harness with synchronous requests, which a worker may
// make; what the test prints goes back the same way, so that it shows while the test runs.

const request = (method, url, body, type, range) => {
	const q = new XMLHttpRequest();
	q.open(method, url, false);
	if (type) q.responseType = type;
	if (range) q.setRequestHeader("Range", range);
	q.send(body);
	return q;
};
const fault = (code) => Object.assign(new Error(code), {code});
const setup = JSON.parse(request("GET", "/setup").responseText);
const absolute = (p) => (p.startsWith("/") ? p : setup.dir + "/" + p);

const flag = {O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, O_DIRECTORY: 65536};

// Temporary files are in memory: path → {bytes}, or {} for a folder. All others are the harness's, and read-only. The
// folder is none that a machine has: a repository may well lie below /tmp.
const temporary = "/in-memory";
const memory = new Map([[temporary, {}]]);
const inMemory = (path) => absolute(path) === temporary || absolute(path).startsWith(temporary + "/");
const held = (path) => {
	const f = memory.get(absolute(path));
	if (!f) throw fault("ENOENT");
	return f;
};
const below = (path) => [...memory.keys()].filter((k) => k.startsWith(absolute(path) + "/"));
const free = (path) => {
	if (!inMemory(path)) throw fault("EROFS");
	if (memory.has(absolute(path))) throw fault("EEXIST");
};

const stat = (size, dir) => ({
	dev: 0, ino: 0, nlink: 1, uid: 0, gid: 0, rdev: 0, blksize: 4096, blocks: 0,
	mode: dir ? 0o040755 : 0o100644, size, atimeMs: 0, mtimeMs: 0, ctimeMs: 0,
	isDirectory: () => dir,
});
const info = (path) => {
	if (inMemory(path)) {
		const {bytes} = held(path);
		const prefix = absolute(path).length + 1;
		const names = below(path).map((k) => k.slice(prefix)).filter((k) => !k.includes("/"));
		return {stat: stat(bytes ? bytes.length : 0, !bytes), names};
	}
	const q = request("GET", "/stat?path=" + encodeURIComponent(absolute(path)));
	if (q.status !== 200) throw fault("ENOENT");
	const {size, dir, names} = JSON.parse(q.responseText);
	return {stat: stat(size, dir), names};
};

const open = new Map(); // descriptor → {path, at, append, memory} or {path, at, size}
let next = 3;
const opened = (fd) => {
	if (!open.has(fd)) throw fault("EBADF");
	return open.get(fd);
};
// part reads bytes [from, to) of an open file.
const part = (f, from, to) => {
	if (f.memory) return f.memory.bytes.subarray(from, to);
	const q = request("GET", "/file?path=" + encodeURIComponent(f.path), null, "arraybuffer", `bytes=${from}-${to - 1}`);
	if (q.status !== 206 || q.response.byteLength !== to - from) throw fault("EIO");
	return new Uint8Array(q.response);
};
const calls = {
	open(path, flags) {
		if (!inMemory(path)) {
			if (flags & 3) throw fault("EROFS");
			open.set(next, {path: absolute(path), at: 0, size: info(path).stat.size});
			return next++;
		}
		if (!memory.has(absolute(path)) && flags & flag.O_CREAT) {
			free(path);
			memory.set(absolute(path), {bytes: new Uint8Array(0)});
		} else if (flags & flag.O_EXCL) {
			free(path);
		}
		const file = held(path);
		if (flags & flag.O_TRUNC && file.bytes) file.bytes = new Uint8Array(0);
		open.set(next, {path: absolute(path), at: 0, append: flags & flag.O_APPEND, memory: file});
		return next++;
	},
	close(fd) { open.delete(fd); },
	stat(path) { return info(path).stat; },
	lstat(path) { return info(path).stat; },
	fstat(fd) { return info(opened(fd).path).stat; },
	readdir(path) { return info(path).names; },
	read(fd, buffer, offset, length, position) {
		const f = opened(fd);
		const from = position ?? f.at;
		const to = Math.min(from + length, f.memory ? f.memory.bytes.length : f.size);
		if (to <= from) return 0;
		buffer.set(part(f, from, to), offset);
		if (position === null) f.at = to;
		return to - from;
	},
	write(fd, buffer, offset, length, position) {
		const data = buffer.subarray(offset, offset + length);
		if (fd === 1 || fd === 2) {
			request("POST", "/out", data.slice());
			return length;
		}
		const f = opened(fd);
		if (!f.memory) throw fault("EROFS");
		const old = f.memory.bytes;
		const from = position ?? (f.append ? old.length : f.at);
		if (from + length > old.length) {
			f.memory.bytes = new Uint8Array(from + length);
			f.memory.bytes.set(old);
		}
		f.memory.bytes.set(data, from);
		if (position === null) f.at = from + length;
		return length;
	},
	ftruncate(fd, length) {
		const {memory: file} = opened(fd);
		const old = file.bytes;
		file.bytes = new Uint8Array(length);
		file.bytes.set(old.subarray(0, length));
	},
	mkdir(path) {
		free(path);
		memory.set(absolute(path), {});
	},
	unlink(path) {
		if (!held(path).bytes) throw fault("EISDIR");
		memory.delete(absolute(path));
	},
	rmdir(path) {
		if (held(path).bytes) throw fault("ENOTDIR");
		if (below(path).length) throw fault("ENOTEMPTY");
		memory.delete(absolute(path));
	},
	rename(from, to) {
		if (!inMemory(to) || !held(from).bytes) throw fault("EROFS");
		memory.set(absolute(to), held(from));
		memory.delete(absolute(from));
	},
	fsync() {},
	chmod(path) { held(path); },
};

globalThis.process = {
	pid: 1, ppid: 0, getuid: () => 0, getgid: () => 0, geteuid: () => 0, getegid: () => 0, getgroups: () => [], umask: () => 0,
	cwd: () => setup.dir,
	chdir: () => { throw fault("ENOSYS"); },
};
globalThis.path = {resolve: (...p) => absolute(p.join("/"))};
globalThis.fs = {
	constants: flag,
	writeSync: (fd, bytes) => calls.write(fd, bytes, 0, bytes.length, null),
};
for (const name of ["chown", "fchmod", "fchown", "lchown", "link", "readlink", "symlink", "truncate", "utimes"]) {
	calls[name] = () => { throw fault("ENOSYS"); };
}
// Go passes a callback as the last argument: (error, result).
for (const [name, call] of Object.entries(calls)) {
	globalThis.fs[name] = (...args) => {
		const done = args.pop();
		let result;
		try {
			result = call(...args);
		} catch (e) {
			done(e.code ? e : fault("EIO"));
			return;
		}
		done(null, result);
	};
}

importScripts("/wasm_exec.js", "/simd.js", "/gpu.js");

// crossings counts how often Go has called JavaScript, by the kind of call, for tests to read.
const crossings = globalThis.crossings = {};
const countCrossings = (imports) => {
	for (const [name, f] of Object.entries(imports)) {
		const [, kind] = name.split("syscall/js.");
		if (!kind) continue;
		crossings[kind] = 0;
		imports[name] = (sp) => { crossings[kind]++; f(sp); };
	}
};

(async () => {
	const bytes = async (url) => (await fetch(url)).arrayBuffer();
	const go = new Go();
	go.argv = ["test", ...setup.args];
	go.env = {...setup.env, TMPDIR: temporary};
	let code = 2; // unless Go says otherwise: it crashed
	go.exit = (c) => { code = c; };
	countCrossings(go.importObject.gojs);
	const module = await WebAssembly.compile(await bytes("/test.wasm"));
	const bind = await attachSimd(go, module, await bytes("/simd.wasm"));
	const instance = await WebAssembly.instantiate(module, go.importObject);
	await bind(instance);
	self.wasm = {instance};
	await go.run(instance);
	request("POST", "/exit?code=" + code, "");
	close(); // Go's timers may still be running
})().catch((e) => request("POST", "/exit?code=2", String(e && e.stack || e) + "\n"));
