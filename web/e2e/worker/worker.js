"use strict";
// Runs one Go test binary. The file system that Go sees is read-only and asks the harness with synchronous requests,
// which a worker may make; what the test prints goes back the same way, so that it shows while the test runs.

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

const files = new Map(); // descriptor → {path, info, at}
let next = 3;
const decoder = new TextDecoder();

const info = (path) => {
	const q = request("GET", "/stat?path=" + encodeURIComponent(absolute(path)));
	if (q.status !== 200) throw fault("ENOENT");
	const {size, dir, names} = JSON.parse(q.responseText);
	const stat = {
		dev: 0, ino: 0, nlink: 1, uid: 0, gid: 0, rdev: 0, blksize: 4096, blocks: 0,
		mode: dir ? 0o040755 : 0o100644, size, atimeMs: 0, mtimeMs: 0, ctimeMs: 0,
		isDirectory: () => dir,
	};
	return {stat, names};
};
const reply = (callback, f) => {
	let result;
	try { result = f(); } catch (e) { callback(e.code ? e : fault("EIO")); return; }
	callback(null, result);
};

globalThis.process = {
	pid: 1, ppid: 0, getuid: () => 0, getgid: () => 0, geteuid: () => 0, getegid: () => 0, getgroups: () => [], umask: () => 0,
	cwd: () => setup.dir,
	chdir: () => { throw fault("ENOSYS"); },
};
globalThis.path = {resolve: (...p) => absolute(p.join("/"))};
const refuse = (...args) => args.at(-1)(fault("EROFS"));
globalThis.fs = {
	constants: {O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_TRUNC: 512, O_APPEND: 1024, O_EXCL: 128, O_DIRECTORY: 65536},
	writeSync(fd, bytes) {
		request("POST", "/out", bytes.slice());
		return bytes.length;
	},
	write(fd, bytes, offset, length, position, callback) {
		if (fd > 2) { callback(fault("EROFS")); return; }
		reply(callback, () => this.writeSync(fd, bytes.subarray(offset, offset + length)));
	},
	open(path, flags, mode, callback) {
		if (flags & 3) { callback(fault("EROFS")); return; }
		reply(callback, () => {
			files.set(next, {path: absolute(path), info: info(path), at: 0});
			return next++;
		});
	},
	close(fd, callback) { files.delete(fd); callback(null); },
	stat(path, callback) { reply(callback, () => info(path).stat); },
	lstat(path, callback) { reply(callback, () => info(path).stat); },
	fstat(fd, callback) { reply(callback, () => files.get(fd).info.stat); },
	readdir(path, callback) { reply(callback, () => info(path).names); },
	read(fd, buffer, offset, length, position, callback) {
		reply(callback, () => {
			const f = files.get(fd);
			const from = position === null ? f.at : position;
			const to = Math.min(from + length, f.info.stat.size);
			if (to <= from) return 0;
			const q = request("GET", "/file?path=" + encodeURIComponent(f.path), null, "arraybuffer", `bytes=${from}-${to - 1}`);
			if (q.status !== 206 || q.response.byteLength !== to - from) throw fault("EIO");
			buffer.set(new Uint8Array(q.response), offset);
			if (position === null) f.at = to;
			return to - from;
		});
	},
	fsync(fd, callback) { callback(null); },
	chmod: refuse, chown: refuse, fchmod: refuse, fchown: refuse, ftruncate: refuse, lchown: refuse, link: refuse, mkdir: refuse,
	readlink: refuse, rename: refuse, rmdir: refuse, symlink: refuse, truncate: refuse, unlink: refuse, utimes: refuse,
};

importScripts("/wasm_exec.js", "/simd.js");

(async () => {
	const bytes = async (url) => (await fetch(url)).arrayBuffer();
	const go = new Go();
	go.argv = ["test", ...setup.args];
	go.env = setup.env;
	let code = 2; // unless Go says otherwise: it crashed
	go.exit = (c) => { code = c; };
	const module = await WebAssembly.compile(await bytes("/test.wasm"));
	const bind = await attachSimd(go, module, await bytes("/simd.wasm"));
	const instance = await WebAssembly.instantiate(module, go.importObject);
	await bind(instance);
	self.wasm = {instance};
	await go.run(instance);
	request("POST", "/exit?code=" + code, "");
	close(); // Go's timers may still be running
})().catch((e) => request("POST", "/exit?code=2", String(e && e.stack || e) + "\n"));
