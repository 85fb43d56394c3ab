// Settings live in localStorage, which a browser may forbid: then naming it throws, and the page's own program would end
// there. A stand-in keeps them for the visit.
for (const name of ["localStorage", "sessionStorage"]) {
  try {
    window[name].getItem("");
  } catch {
    const kept = new Map();
    const value = {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, to) => { kept.set(key, String(to)); },
      removeItem: (key) => { kept.delete(key); },
      clear: () => kept.clear(),
      key: (i) => [...kept.keys()][i] ?? null,
      get length() { return kept.size; },
    };
    Object.defineProperty(window, name, {value, configurable: true});
  }
}
// The saved theme, before anything is painted: the page's own program comes much later.
{
  const theme = localStorage.getItem("kvlens.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
