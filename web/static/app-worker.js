// The service worker keeps the shell of the site (page, programs, styles, texts, manifests) for visits without a
// network. It never touches weights: they go straight from the network into the engine's own store. Its template is
// filled in by web/gen.
const scope = new URL(self.registration.scope).pathname;
const family = `kvlens-shell ${scope} `; // other sites may share this origin: only caches of this family are ours
const cacheName = family + "{{.Version}}";
const shell = new Set({{.ResourcesToCache}});

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));

// install takes every file past the HTTP cache, which may still hold files of an older version. One missing file fails
// the installation, and the version before stays whole.
async function install() {
  const cache = await caches.open(cacheName);
  await Promise.all([...shell].map(async (path) => {
    const response = await fetch(path, { cache: "reload" });
    if (!response.ok || response.redirected) throw new Error(`${path}: status ${response.status}`);
    await cache.put(path, response);
  }));
  await self.skipWaiting();
}

// activate does not claim the open page: on a first visit that would look like an update to it. The next load is ours.
async function activate() {
  const names = await caches.keys();
  await Promise.all(names.filter((n) => n.startsWith(family) && n !== cacheName).map((n) => caches.delete(n)));
}

self.addEventListener("fetch", (event) => {
  const { pathname, origin } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== self.location.origin || !shell.has(pathname)) return;
  event.respondWith(answer(event.request, pathname));
});

// answer looks the path up without its query: ?lang= and ?backend= name settings of one and the same page.
async function answer(request, path) {
  const cache = await caches.open(cacheName);
  return (await cache.match(path)) ?? fetch(request);
}
