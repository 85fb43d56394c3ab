// Says so when the page's program has died. A Go panic ends the program but leaves the page standing, with buttons that
// do nothing; then only this script is left to speak. It loads its words at once, while they can still be had.
(() => {
  const base = document.currentScript.src;
  const texts = fetch(new URL("shell.json", base)).then((r) => r.json()).catch(() => ({}));
  let shown = false;
  let leaving = false;
  let started = false; // from then on the program says which language the page has
  addEventListener("pagehide", () => { leaving = true; });

  async function dead(detail) {
    if (shown || leaving) return;
    shown = true;
    const all = await texts;
    const asked = new URLSearchParams(location.search).get("lang") ?? navigator.language;
    const lang = (started ? document.documentElement.lang : asked).startsWith("zh") ? "zh" : "en";
    const text = all[lang] ?? {};
    const box = document.createElement("div");
    box.className = "shell-dead";
    box.dataset.testid = "dead";
    box.setAttribute("role", "alertdialog");
    box.setAttribute("aria-label", text.Dead ?? "");
    box.lang = lang;
    const head = document.createElement("h2");
    head.textContent = text.Dead ?? "";
    const word = document.createElement("p");
    word.textContent = text.DeadHint ?? "";
    const button = document.createElement("button");
    button.textContent = text.Reload ?? "↻";
    button.addEventListener("click", () => location.reload());
    const cause = document.createElement("pre");
    cause.textContent = String(detail ?? "");
    box.append(head, word, button, cause);
    document.body.append(box);
    button.focus();
  }

  // The program's own loader is defined by a deferred script; when the document is ready it is there.
  document.addEventListener("DOMContentLoaded", () => {
    const run = globalThis.Go?.prototype.run;
    if (!run) return dead();
    Go.prototype.run = function (instance) {
      started = true;
      return run.call(this, instance).then(() => dead(), dead);
    };
  });
  const load = WebAssembly.instantiateStreaming;
  if (load) {
    WebAssembly.instantiateStreaming = (...args) => load.apply(WebAssembly, args).catch((err) => {
      dead(err);
      throw err;
    });
  }
  addEventListener("error", (event) => {
    if (event.error instanceof WebAssembly.RuntimeError) dead(event.error);
  });
})();
