// Paints pictures of w × h pixels, which lie one after the other in RGBA bytes, into canvases in their order (app/ui). One
// call for all of them, and nothing where a canvas is missing.
globalThis.kvlensPaint = (canvases, bytes, w, h) => {
  const size = 4 * w * h;
  if (size === 0) return;
  let at = 0;
  for (const canvas of canvases) {
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
    canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(bytes.buffer, at, size), w, h), 0, 0);
    at += size;
  }
};

// Shows by how much a head's row looks at each token of a text: a digit a token, 0 for not at all.
globalThis.kvlensLooks = (text, digits) => {
  let i = 0;
  for (const token of text.children) {
    const digit = digits[i++] ?? "0";
    if ((token.dataset.a ?? "0") !== digit) token.dataset.a = digit;
  }
};

// Tells whether some of an element can be seen: what cannot need not be painted while it changes.
{
  const unseen = new WeakSet(), watched = new WeakSet();
  const watch = new IntersectionObserver((changes) => {
    for (const c of changes) c.isIntersecting ? unseen.delete(c.target) : unseen.add(c.target);
  });
  globalThis.kvlensSees = (element) => {
    if (!watched.has(element)) {
      watched.add(element);
      watch.observe(element);
    }
    return !unseen.has(element);
  };
}
